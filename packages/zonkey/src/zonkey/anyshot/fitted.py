"""What a fitted `AnyShotClassifier` tells: attributes that follow from its state."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.utils.validation import check_is_fitted

from ..arrays import Array
from ..inference.predict import ScoresMixin
from ..inference.scorer import Rejection, Scorer
from ..labels import place_labels
from ..parameters import Constraint
from ..prototypes import Prototypes
from .state import AnyShotState


class FittedMixin(ScoresMixin):
    """Attributes of a fitted model, derived from its state and its scorer."""

    __constraints__: ClassVar[dict[str, Constraint]]
    reject_below: float | None
    reject_label: Any
    _state: AnyShotState
    _scorer: Scorer

    @property
    def state_(self) -> AnyShotState:
        """Everything that was learned."""
        check_is_fitted(self)
        return self._state

    @property
    def scorer_(self) -> Scorer:
        """Everything that prediction reads."""
        check_is_fitted(self)
        self.__constraints__["reject_below"].check("reject_below", self.reject_below)
        return self._scorer.reject(Rejection(self.reject_below, self.reject_label))

    def __sklearn_is_fitted__(self) -> bool:
        return "_scorer" in vars(self)

    @property
    def classes_(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The candidates, in the order of the columns of `decision_function`."""
        return place_labels(self.scorer_.labels, self.state_.evidence.sums)

    @property
    def seen_classes_(self) -> Array:
        """Known classes with samples."""
        return place_labels(self.state_.seen, self.state_.evidence.sums)

    @property
    def unseen_classes_(self) -> Array:
        """Known classes without samples."""
        return place_labels(self.state_.unseen, self.state_.evidence.sums)

    @property
    def prototypes_(self) -> Prototypes | None:
        """Prototypes of the known classes that have one."""
        return self.state_.prototypes

    @property
    def centers_(self) -> Array:
        """Centers of the candidates, in the preprocessed space."""
        form: Any = self.scorer_.form
        return form.centers

    @property
    def preprocessing_(self) -> Any:
        """Fitted transformer of features."""
        return self.state_.preprocessing

    @property
    def best_params_(self) -> dict[str, Any]:
        """Values in use of the parameters that may be "auto"."""
        state, adapted = self.state_, self.state_.adapted
        found = {**state.steps, "worth": self.worth_, "seen_penalty": self.seen_penalty_}
        found["temperature"] = self.temperature_
        if state.regression is None:
            del found["worth"]
        if state.tree is None:
            found.pop("tree_weight", None)
        return found if adapted is None else {**found, **adapted.chosen}

    @property
    def best_score_(self) -> float:
        """Score of the chosen parameters on held-out classes."""
        return self.state_.choice.score

    @property
    def worth_(self) -> float:
        """Number of samples that a prototype is worth."""
        return self.state_.choice.worth_in_use

    @property
    def seen_penalty_(self) -> float:
        """Penalty of classes with many samples."""
        return self.state_.choice.penalty

    @property
    def temperature_(self) -> Any:
        """Temperature for the candidates."""
        return self.scorer_.temperature

    @property
    def is_transductive_(self) -> bool:
        """Whether unlabeled samples took part."""
        return self.state_.adapted is not None
