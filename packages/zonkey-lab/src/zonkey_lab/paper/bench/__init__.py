"""Run the experiments: models, data sources, parameter selection, protocols, runner."""
