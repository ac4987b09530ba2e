"""Tasks: data, position views, scores and a worked example; one task per module or package."""
