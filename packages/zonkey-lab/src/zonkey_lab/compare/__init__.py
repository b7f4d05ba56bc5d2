"""`zonkey compare`: a leaderboard of all systems on anybody's data."""
