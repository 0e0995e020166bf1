//! The configuration file and the environment, read into the configuration of every module.
