import numpy as np
import pytest
from sklearn.datasets import load_digits

from zonkey.datasets import load_two_digit_numbers


def test_sizes_follow_the_parameters():
    data = load_two_digit_numbers(n_unseen=30, n_train=4, n_test=3, random_state=5)
    assert data.X_train.shape == (70 * 4, 128)
    assert data.X_test.shape == (100 * 3, 128)
    assert len(data.unseen_classes) == 30
    assert data.is_unseen.sum() == 30 * 3
    assert data.X_train.min() >= 0
    assert data.X_train.max() <= 1


def test_unseen_classes_have_no_training_sample():
    data = load_two_digit_numbers(n_unseen=40, n_train=3)
    assert not np.isin(data.y_train, data.unseen_classes).any()
    assert set(data.unseen_classes) <= set(data.y_test)


def test_a_prototype_names_both_digits():
    prototypes = load_two_digit_numbers(n_train=1, n_test=1).prototypes
    expected = np.zeros(20)
    expected[4], expected[10 + 7] = 1, 1
    np.testing.assert_array_equal(prototypes["47"], expected)
    assert len(prototypes) == 100


def test_halves_are_pictures_of_the_digits_in_the_label():
    data = load_two_digit_numbers(n_train=2, n_test=2, random_state=3)
    digits = load_digits()
    known = {
        image.tobytes(): target for image, target in zip(digits.images, digits.target, strict=True)
    }
    for x, label in zip(data.X_test[::17], data.y_test[::17], strict=True):
        picture = (x.reshape(8, 16) * 16).round()
        halves = np.ascontiguousarray(picture[:, :8]), np.ascontiguousarray(picture[:, 8:])
        assert [known[half.tobytes()] for half in halves] == [int(digit) for digit in label]


def test_training_and_test_share_no_handwriting():
    data = load_two_digit_numbers(n_train=30, n_test=30)

    def halves(X):
        pictures = X.reshape(-1, 8, 16)
        both = np.concatenate([pictures[:, :, :8], pictures[:, :, 8:]])
        return {np.ascontiguousarray(half).tobytes() for half in both}

    assert not halves(data.X_train) & halves(data.X_test)


def test_seed_decides_everything():
    same = [load_two_digit_numbers(n_train=2, n_test=2, random_state=1) for _ in range(2)]
    other = load_two_digit_numbers(n_train=2, n_test=2, random_state=2)
    assert same[0].sha256 == same[1].sha256
    assert same[0].sha256 != other.sha256


@pytest.mark.parametrize("n_unseen", [0, 99])
def test_number_of_unseen_classes_out_of_range(n_unseen):
    with pytest.raises(ValueError, match=f"got {n_unseen}.*Choose 1 to 98"):
        load_two_digit_numbers(n_unseen=n_unseen)
