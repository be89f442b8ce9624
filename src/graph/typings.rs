//! The operator table as TypeScript.
