"""`AnyShotClassifier`: one posterior center per class, from none to many samples."""
