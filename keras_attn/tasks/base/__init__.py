"""Training, files, predictions and exports of all tasks."""
