"""Base of all tasks: training, files, predictions and exports."""
