//! Programs for two processors, made of a few instructions: each prints a line and ends. They are static, as the
//! real ones are, and need no compiler.

/// Their output.
pub(crate) const SAID: &str = "a stand-in for modgate\n";

/// For x86-64.
pub(crate) fn amd64() -> Vec<u8> {
    let length = u8::try_from(SAID.len()).expect("short");
    let code = [
        // write(1, text, length): the text begins 16 bytes after the instruction that takes its address.
        &[0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0][..],
        &[0x48, 0x8d, 0x35, 16, 0, 0, 0, 0xba, length, 0, 0, 0, 0x0f, 0x05],
        // exit(0)
        &[0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05],
    ];
    elf(62, &code.concat())
}

/// For 64-bit ARM.
pub(crate) fn arm64() -> Vec<u8> {
    let length = u32::try_from(SAID.len()).expect("short");
    let code: [u32; 8] = [
        // write(1, text, length): the text begins 28 bytes after the instruction that takes its address.
        0xd280_0020,
        0x1000_00e1,
        0xd280_0002 | (length << 5),
        0xd280_0808,
        0xd400_0001,
        // exit(0)
        0xd280_0000,
        0xd280_0ba8,
        0xd400_0001,
    ];
    elf(183, &code.map(u32::to_le_bytes).concat())
}

/// An ELF file with one segment: the headers, the code, the text.
fn elf(machine: u16, code: &[u8]) -> Vec<u8> {
    const ADDRESS: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + u64::try_from(code.len() + SAID.len()).expect("short");
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for short in [2, machine] {
        file.extend(short.to_le_bytes());
    }
    file.extend(1_u32.to_le_bytes());
    for long in [ADDRESS + HEADERS, 64, 0] {
        file.extend(long.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    for short in [64_u16, 56, 1, 64, 0, 0] {
        file.extend(short.to_le_bytes());
    }
    // Loaded, readable and executable.
    for word in [1_u32, 5] {
        file.extend(word.to_le_bytes());
    }
    for long in [0, ADDRESS, ADDRESS, size, size, 0x1000] {
        file.extend(long.to_le_bytes());
    }
    file.extend(code);
    file.extend(SAID.as_bytes());
    file
}
