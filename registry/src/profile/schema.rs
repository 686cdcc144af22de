//! JSON Schema of profiles, for editors.
