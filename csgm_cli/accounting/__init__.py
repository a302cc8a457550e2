"""What an accountant charges one or several releases: epsilon, delta, the least noise, the room left."""
