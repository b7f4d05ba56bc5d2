"""Files of features, prototypes and labels, and the data set that they become."""
