"""The commands of csgm, one thin module each."""
