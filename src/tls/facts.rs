//! What a certificate says of itself (RFC 5280).

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::X509Version;

/// From how many days before its end on a certificate counts as expiring.
pub const EXPIRING_DAYS: i64 = 30;
const SECONDS_PER_DAY: i64 = 86_400;

/// Whether a certificate counts at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Not before a later moment.
    NotYetValid,
    /// It does.
    Valid,
    /// It does, and ends within [`EXPIRING_DAYS`].
    Expiring,
    /// Not any more.
    Expired,
}

/// What is read of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Whose it is.
    pub subject: String,
    /// Who vouches for it.
    pub issuer: String,
    /// The names and addresses it counts for.
    pub sans: Vec<String>,
    /// From when on it counts.
    pub not_before: Timestamp,
    /// Until when it counts.
    pub not_after: Timestamp,
}

/// Tells whether a certificate is of the first version of X.509, which has no extensions: nobody takes it for a server's.
pub fn is_of_version_1(certificate: &CertificateDer<'_>) -> bool {
    parse_x509_certificate(certificate).is_ok_and(|(_, read)| read.version() == X509Version::V1)
}

impl Validity {
    /// Returns its name in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotYetValid => "not_yet_valid",
            Self::Valid => "valid",
            Self::Expiring => "expiring",
            Self::Expired => "expired",
        }
    }

    /// Tells whether clients take the certificate.
    pub fn counts(self) -> bool {
        match self {
            Self::Valid | Self::Expiring => true,
            Self::NotYetValid | Self::Expired => false,
        }
    }
}

impl CertificateFacts {
    /// Returns how many whole days it counts from a moment on; negative once it is over.
    pub fn days_left(&self, now: Timestamp) -> i64 {
        (self.not_after.as_second() - now.as_second()).div_euclid(SECONDS_PER_DAY)
    }

    /// Tells whether it counts at a moment.
    pub fn validity(&self, now: Timestamp) -> Validity {
        match (now < self.not_before, now >= self.not_after) {
            (true, _) => Validity::NotYetValid,
            (false, true) => Validity::Expired,
            (false, false) if self.days_left(now) < EXPIRING_DAYS => Validity::Expiring,
            (false, false) => Validity::Valid,
        }
    }

    /// Reads a certificate; `None` for what is none.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(certificate.as_ref()).ok()?;
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|names| names.value.general_names.iter().filter_map(shown).collect());
        let validity = certificate.validity();
        Some(Self {
            subject: certificate.subject().to_string(),
            issuer: certificate.issuer().to_string(),
            sans: names.unwrap_or_default(),
            not_before: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            not_after: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
        })
    }
}

fn shown(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => {
            Some((*name).to_owned())
        }
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_counts_from_its_first_second_to_its_last() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let facts = CertificateFacts {
            subject: String::new(),
            issuer: String::new(),
            sans: Vec::new(),
            not_before: at("2026-05-01T12:00:00Z"),
            not_after: at("2026-08-01T12:00:00Z"),
        };
        for (now, validity, days_left) in [
            ("2026-05-01T11:59:59Z", Validity::NotYetValid, 92),
            ("2026-05-01T12:00:00Z", Validity::Valid, 92),
            ("2026-07-02T12:00:00Z", Validity::Valid, 30),
            ("2026-07-02T12:00:01Z", Validity::Expiring, 29),
            ("2026-08-01T11:59:59Z", Validity::Expiring, 0),
            ("2026-08-01T12:00:00Z", Validity::Expired, 0),
            ("2026-08-01T12:00:01Z", Validity::Expired, -1),
        ] {
            assert_eq!((facts.validity(at(now)), facts.days_left(at(now))), (validity, days_left), "{now}");
        }
    }
}
