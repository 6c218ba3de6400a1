"""Answer selection: a question and many candidates, ranked."""
