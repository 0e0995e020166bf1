//! PDFs: their text is read whatever it is packed in and looks like, and hostile ones cost little.

use std::io::Write;
use std::time::Instant;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::BLOCKING;
use super::TIME_MAX;
use super::assert_passes;
use super::bring;
use super::counted;
use super::in_front_of;
use super::upload;
use crate::answers::recorded;
use crate::framing::secret;
use crate::upstream::Upstream;

/// The type of a PDF.
const PDF: &str = "application/pdf";
/// A catalogue, a tree of pages with one page, and a font, as objects 1 to 4; the page's content is object 5.
const FRAME: [&str; 4] = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>>>",
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
];
/// Encrypted files of pypdf's with a key on their page, the first ones without a password.
const ENCRYPTED: [&[u8]; 4] = [
    include_bytes!("rc4-128.pdf"),
    include_bytes!("aes-128.pdf"),
    include_bytes!("aes-256.pdf"),
    include_bytes!("password.pdf"),
];

/// Returns a PDF with objects, numbered from 1 on.
fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.7\n".to_vec();
    let mut places = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        places.push(file.len());
        file.extend([format!("{} 0 obj\n", at + 1).as_bytes(), object, b"\nendobj\n"].concat());
    }
    let table = file.len();
    file.extend(format!("xref\n0 {}\n0000000000 65535 f \n", places.len() + 1).bytes());
    places.iter().for_each(|at| file.extend(format!("{at:010} 00000 n \n").bytes()));
    file.extend(
        format!("trailer\n<</Size {}/Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n", places.len() + 1).bytes(),
    );
    file
}

/// Returns the frame with further objects.
pub fn framed(more: &[Vec<u8>]) -> Vec<u8> {
    let frame = FRAME.iter().map(|object| object.as_bytes().to_vec());
    file(&frame.chain(more.iter().cloned()).collect::<Vec<_>>())
}

/// Returns a stream with entries of its dictionary.
pub fn stream(dict: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!("<<{dict}/Length {}>>\nstream\n", bytes.len());
    [head.as_bytes(), bytes, b"\nendstream"].concat()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Returns a PDF whose page shows a text.
fn page(content: &str) -> Vec<u8> {
    framed(&[stream("/Filter/FlateDecode", &deflated(content.as_bytes()))])
}

/// Returns a PDF whose page shows codes of a font of more signs than a byte tells apart.
fn composite(encoding: &str, codes: &str, maps: &[Vec<u8>]) -> Vec<u8> {
    let font =
        format!("<</Type/Font/Subtype/Type0/Encoding {encoding}/DescendantFonts[<</DW 600>>]>>").into_bytes();
    let shown = stream("", format!("BT /F1 12 Tf <{codes}> Tj ET").as_bytes());
    let frame = FRAME.iter().take(3).map(|object| object.as_bytes().to_vec());
    file(&frame.chain([font, shown]).chain(maps.iter().cloned()).collect::<Vec<_>>())
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_key_in_a_pdf_does_not_leave_in_any_form_in_which_one_is_brought() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let key = secret();
    let with_key = page(&format!("BT /F1 12 Tf 72 700 Td (use {}) Tj ({}) Tj ET", &key[..9], &key[9..]));
    assert_passes(&gateway, &upstream, &with_key, PDF, false);
    let entry = recorded(&gateway, "exchange");
    assert!(entry["message"].as_str().unwrap_or_default().ends_with(", in document 1: page 1"), "{entry}");
    assert!(!entry.to_string().contains(&key), "{entry}");
    let gateway = in_front_of(&upstream, BLOCKING);
    assert_passes(&gateway, &upstream, &page("BT /F1 12 Tf 72 700 Td (All is well.) Tj ET"), PDF, true);
    assert!(counted(&gateway, "read") > 0);
}

/// Whatever a person sees of it, and whichever object holds it.
#[test]
fn every_place_of_a_pdf_is_read() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let key = secret();
    let (head, tail) = key.split_at(9);
    let wide: String = key.bytes().map(|byte| format!("{:04x}", u16::from(byte) + 3)).collect();
    let map = b"1 begincodespacerange <0000> <ffff> endcodespacerange 1 beginbfrange <0033> <007d> <0030> endbfrange";
    let packed = format!("10 0 11 9 <</X 1>> <</Title({key})>>");
    // The signs of this font are 7.2 wide at a size of 12.
    let place =
        |(at, sign): (usize, char)| format!("1 0 0 1 {:.1} 700 Tm ({sign}) Tj ", 72.0 + 7.2 * at as f64);
    let glyphs: String = key.chars().enumerate().map(place).collect();
    let shown = |content: String| page(&format!("BT /F1 12 Tf 72 700 Td {content} ET"));
    let with = |object: Vec<u8>| framed(&[stream("", b""), object]);
    let utf16: String = key.encode_utf16().map(|unit| format!("{unit:04x}")).collect();
    let files = [
        ("white", shown(format!("1 1 1 rg ({key}) Tj"))),
        ("invisible", shown(format!("3 Tr ({key}) Tj"))),
        ("kerned", shown(format!("[({head}) -20 ({tail})] TJ"))),
        ("outside", shown(format!("9000 9000 Td ({key}) Tj"))),
        ("hexadecimal", shown(format!("<{}> Tj", hexadecimal(&key)))),
        (
            "sign by sign",
            file(&[
                FRAME[0].into(),
                FRAME[1].into(),
                FRAME[2].into(),
                b"<</Type/Font/Subtype/Type1/BaseFont/Courier>>".to_vec(),
                stream("", format!("BT /F1 12 Tf {glyphs} ET").as_bytes()),
            ]),
        ),
        ("replaced text", shown(format!("/Span <</ActualText({key})>> BDC (x) Tj EMC"))),
        ("wide codes", composite("/Identity-H/ToUnicode 6 0 R", &wide, &[stream("", map)])),
        (
            "codes of one byte in a font of many signs",
            composite(
                "6 0 R/ToUnicode 7 0 R",
                &hexadecimal(&key),
                &[
                    stream("/Type/CMap", b"1 begincodespacerange <00> <FF> endcodespacerange 1 begincidrange <00> <FF> 0 endcidrange"),
                    stream("", b"1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <21> <7e> <0021> endbfrange"),
                ],
            ),
        ),
        ("codes of Shift JIS", composite("/90ms-RKSJ-H", &hexadecimal(&key), &[])),
        ("two filters", framed(&[stream("/Filter[/ASCIIHexDecode/FlateDecode]", deflated(format!("BT /F1 9 Tf ({key}) Tj ET").as_bytes()).iter().map(|byte| format!("{byte:02X}")).collect::<String>().as_bytes())])),
        ("a note", with(format!("<</Type/Annot/Subtype/Text/Contents({key})>>").into_bytes())),
        ("a field", with(format!("<</FT/Tx/V<feff{utf16}>>>").into_bytes())),
        ("a property in an object stream", with(stream("/Type/ObjStm/N 2/First 10/Filter/FlateDecode", &deflated(packed.as_bytes())))),
        ("metadata", with(stream("/Type/Metadata/Subtype/XML", format!("<rdf><dc:title>{key}</dc:title></rdf>").as_bytes()))),
        ("an attached file", with(stream("/Type/EmbeddedFile", format!("notes: {key}").as_bytes()))),
        ("a form", with(stream("/Type/XObject/Subtype/Form", format!("BT /F1 9 Tf ({key}) Tj ET").as_bytes()))),
        ("a page that nothing leads to", with(stream("", format!("BT /F1 9 Tf ({key}) Tj ET").as_bytes()))),
        ("junk in front", [&b"junk\n"[..], &shown(format!("({key}) Tj"))].concat()),
    ];
    for (what, file) in &files {
        let answer = bring(&gateway, file);
        assert_eq!(answer.status, 403, "{what}: {}", answer.text());
    }
    assert!(upstream.take().is_empty(), "what is refused reached the provider");
}

#[test]
fn encrypted_pdfs_are_read_where_no_password_is_needed() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let statuses = ENCRYPTED.map(|file| bring(&gateway, file).status);
    assert_eq!((statuses, counted(&gateway, "encrypted")), ([403, 403, 403, 200], 1));
    let gateway = in_front_of(&upstream, &format!("documents = \"require\"\n{BLOCKING}"));
    assert_eq!(bring(&gateway, ENCRYPTED[3]).status, 400);
}

/// Its font says neither what its codes mean nor how they would be looked up; bullets in such a font are no words.
#[test]
fn words_in_a_font_that_tells_nothing_are_words_that_cannot_be_read() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, &format!("documents = \"require\"\n{BLOCKING}"));
    let coded = |signs: usize| composite("/Identity-H", &"0007".repeat(signs), &[]);
    assert_eq!([4, 24].map(|signs| bring(&gateway, &coded(signs)).status), [200, 400]);
    assert_eq!(counted(&gateway, "format"), 1);
}

/// Returns a PDF of many fonts, each of which has all codes of a map of one line, and all widths.
fn fonts(count: usize) -> Vec<u8> {
    let font = "<</Type/Font/Subtype/Type0/Encoding/Identity-H/ToUnicode 5 0 R/DescendantFonts[<</W[0 65535 500]>>]>>";
    let fonts = (0..count).map(|_| font.as_bytes().to_vec());
    let named: String = (0..count).map(|at| format!("/F{at} {} 0 R", at + 6)).collect();
    let page = format!("<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<<{named}>>>>>>");
    let map = b"<0000><ffff><0041> endbfrange <0000><ffff><0041> endbfrange";
    let frame = [
        FRAME[0].into(),
        FRAME[1].into(),
        page.into_bytes(),
        stream("", b"BT /F1 9 Tf <0001> Tj ET"),
        stream("", map),
    ];
    file(&frame.into_iter().chain(fonts).collect::<Vec<_>>())
}

/// Returns a map with as many ranges as are kept, and many words that end ranges; it does not look like a text.
fn map_of_many_ends() -> Vec<u8> {
    let ranges: String = (0..70_000).map(|code| format!("\x01\x02<{code:08x}> 1 ")).collect();
    [ranges.into_bytes(), b"endcidchar ".repeat(300_000)].concat()
}

/// Each is odd, or made to cost much; none is a reason to refuse its body, and none costs more than a document may.
#[test]
fn hostile_pdfs_cost_no_more_than_a_document_may() {
    let upstream = Upstream::answering("application/json", "{}");
    let gateway = in_front_of(&upstream, BLOCKING);
    let bomb = deflated(&vec![b' '; 200 << 20]);
    let objects =
        |count: usize, object: &str| (0..count).map(|_| object.as_bytes().to_vec()).collect::<Vec<_>>();
    let cases = [
        ("nothing but a head", b"%PDF-1.7\n".to_vec()),
        (
            "pages in a circle",
            file(&[FRAME[0].into(), b"<</Type/Pages/Parent 2 0 R/Kids[2 0 R 2 0 R 1 0 R]>>".to_vec()]),
        ),
        (
            "a value that refers to itself",
            framed(&[b"5 0 R".to_vec(), b"<</Length 6 0 R>>\nstream\nx\nendstream".to_vec()]),
        ),
        (
            "a form that draws itself",
            file(&[
                FRAME[0].into(),
                FRAME[1].into(),
                b"<</Type/Page/Parent 2 0 R/Contents 5 0 R/Resources<</XObject<</X 4 0 R>>>>>>".to_vec(),
                stream("/Subtype/Form/Resources<</XObject<</X 4 0 R>>>>", "/X Do ".repeat(50).as_bytes()),
                stream("", "/X Do ".repeat(50).as_bytes()),
            ]),
        ),
        ("deep arrays", framed(&["[".repeat(2 << 20).into_bytes()])),
        ("deep dictionaries", framed(&["<</A".repeat(1 << 20).into_bytes()])),
        ("strings without end", framed(&objects(20_000, "(("))),
        ("streams without end", framed(&objects(20_000, "<<>>stream\n"))),
        (
            "wide columns",
            framed(&[stream(
                "/Filter/FlateDecode/DecodeParms<</Predictor 15/Columns 2147483647/Colors 65535>>",
                &deflated(b"x"),
            )]),
        ),
        ("a bomb", framed(&[stream("/Filter/FlateDecode", &bomb)])),
        ("a bomb in a bomb", framed(&[stream("/Filter[/FlateDecode/FlateDecode]", &deflated(&bomb))])),
        (
            "many bombs",
            framed(
                &(0..20)
                    .map(|_| stream("/Type/ObjStm/N 9/First 9/Filter/FlateDecode", &bomb))
                    .collect::<Vec<_>>(),
            ),
        ),
        ("many fonts of one map that tells much", fonts(2_000)),
        (
            "a map of many ends",
            composite("6 0 R", "00", &[stream("/Filter/FlateDecode", &deflated(&map_of_many_ends()))]),
        ),
        ("many objects", framed(&objects(220_000, ""))),
        ("a page for each object", framed(&objects(5_000, FRAME[2]))),
    ];
    for (what, file) in &cases {
        let begun = Instant::now();
        let answer = upload(&gateway, file);
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert!(begun.elapsed() < TIME_MAX, "{what}: {:?}", begun.elapsed());
    }
    assert!(counted(&gateway, "too_large") >= 3, "bombs were unfolded");
}
