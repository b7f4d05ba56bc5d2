"""The half of the paper's table of 5-way trials that is on features of the simple CNN."""

from made_up_records import MadeUp

from zonkey_lab.paper.experiments import EXPERIMENTS
from zonkey_lab.paper.printed import find_printed
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.tables import experiment_tables


def test_the_simple_cnn_has_the_figures_printed_for_it():
    one, five = (find_printed("metafsl", "mini-imagenet-cnn", f"{K}-shot") for K in (1, 5))
    assert (one["BPL (SFSP1)"].value, five["BPL (SFSP1)"].value) == (54.20, 65.28)
    assert (one["PPA"].value, five["PPA"].spread) == (54.53, 0.20)
    assert {*one} <= {*EXPERIMENTS["mini-imagenet"].models}
    assert "SNAIL" not in one  # on a deeper network
    whole = find_printed("metafsl", "mini-imagenet", "1-shot")
    assert whole["BPL (SFSP1)"].value == 58.53  # of the WRN
    assert len(one) == sum(figure.features == "simple CNN" for figure in whole.values())


def test_they_are_shown_next_to_measured_ones(tmp_path):
    made = MadeUp(tmp_path, "mini-imagenet-cnn", "simple CNN (conv4.npz)")
    for model in ("BPL (SFSP1)", "NN"):
        made.trials(model, 0.5, 1)
    study = read_collection(tmp_path).study("mini-imagenet", "mini-imagenet-cnn")
    table = experiment_tables(study)[0]
    rows = {str(row[0]): [str(cell) for cell in row] for row in table.rows}
    assert "54.2 ± 0.6" in rows["BPL (SFSP1)"]
    assert "41.1 ± 0.7" in rows["NN"]
    note = "not comparable: the paper used other simple CNN features: BPL (SFSP1); NN."
    assert note in table.remarks
