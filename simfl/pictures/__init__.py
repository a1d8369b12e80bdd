"""Numbers into what a person looks at: figures, reports, timelines."""
