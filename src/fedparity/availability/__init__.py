"""Who is there: models that draw a trace, files that replay into one, estimators and forecasts."""
