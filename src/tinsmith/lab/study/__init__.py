"""A study: arms, rates and seeds; tuned, resumed, reported."""
