"""Many runs over one corpus: plans, sweep, ladder."""
