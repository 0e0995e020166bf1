//! Documents: whatever a file says, it is read within its bounds.

use portcullis::attachment;
use portcullis::attachment::Bounds;
use portcullis::attachment::Form;
use portcullis::attachment::Unread;

const BOUNDS: Bounds = Bounds {
    text_bytes_max: 64 << 10,
    expanded_bytes_max: 1 << 20,
    entries_max: 50,
    objects_max: 500,
    depth_max: 3,
};

/// A file of any form is read without a defect, to no more text than its bounds let.
pub fn file(bytes: &[u8]) {
    let tail = bytes.get(bytes.len().saturating_sub(attachment::TAIL_BYTES)..).unwrap_or_default();
    let told = Form::of(bytes, tail);
    for form in [Form::Pdf, Form::Archive, Form::RichText, Form::Compound].into_iter().chain(told) {
        let reading = attachment::read(bytes, form, &BOUNDS, &|| false);
        assert_ne!(reading.unread, Some(Unread::Defect), "{form:?}");
        let text: usize = reading.parts.iter().map(|part| part.text.len()).sum();
        assert!(text <= BOUNDS.text_bytes_max, "{form:?}: {text} bytes of text");
        let late = attachment::read(bytes, form, &BOUNDS, &|| true);
        assert!(late.parts.len() <= 1, "{form:?}: read without time");
    }
}
