"""Changes that cannot be applied, what has to wait behind them, and what people are told of both."""
