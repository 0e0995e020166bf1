//! Who calls, what they may do, and how often.
//!
//! In: the headers of a request. Out: a [`Principal`] with a [`Role`] and a [`Tier`], and the state of its
//! rate limit. Nothing here records or answers: the edges do.

pub mod credential;
pub mod key;
pub mod limit;
pub mod role;
mod secret;
pub mod tier;

pub use self::credential::Credential;
pub use self::credential::CredentialError;
pub use self::key::KeyStore;
pub use self::key::Principal;
pub use self::limit::Buckets;
pub use self::limit::LimitState;
pub use self::role::Permission;
pub use self::role::Role;
pub use self::secret::CallerHash;
pub use self::secret::NodeSecret;
pub use self::secret::SecretError;
pub use self::tier::Tier;
pub use self::tier::TierLimits;
