"""Tables, figures and pages made of records; reads records and nothing else."""
