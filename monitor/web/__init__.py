"""The live page and the JSON API: what the store holds, for a browser and for programs."""
