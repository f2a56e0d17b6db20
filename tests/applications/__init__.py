"""Real applications: their schemas and upgrade scripts, from the package registries, run while the job runs."""
