"""`MultiLabelClassifier`: any number of labels per sample, from none to many samples of each."""
