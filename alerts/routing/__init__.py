"""Who hears of what and when: labels, matchers, hours, silences and routes; pure."""
