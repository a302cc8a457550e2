"""What a person should read of each document, rounded to the safe side."""
