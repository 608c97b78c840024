"""From a trained model to text: scoring, search, the bundle that ships, and the translator that users meet."""
