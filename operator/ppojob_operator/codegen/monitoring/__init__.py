"""Rules, alerts and dashboards: all queries are built from the declared metrics, so that none can name another."""
