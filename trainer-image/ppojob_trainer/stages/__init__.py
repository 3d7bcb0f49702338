"""What a job does beside training: programs that `ppojob-stage` runs, one a package, each with a `run(context)`."""
