//! Check values of packets: the invariant and the variant CRC (IBTA 7.8).

/// Returns the invariant CRC in the order of its bytes on the link (IBTA 7.8.1). `parts` follow
/// each other, with ones in place of the bits that switches and routers may change.
pub fn invariant(parts: &[&[u8]]) -> [u8; 4] {
    // The polynomial of Ethernet, 0x04C11DB7, with the least significant bit first.
    let crc = parts.iter().copied().flatten().fold(u32::MAX, |crc, byte| {
        let index = (crc ^ u32::from(*byte)) & 0xFF;
        crc >> 8 ^ INVARIANT[index as usize]
    });
    (!crc).to_le_bytes()
}

/// Returns the variant CRC of all bytes from the LRH to the invariant CRC, in the order of its
/// bytes on the link (IBTA 7.8.2).
pub fn variant(bytes: &[u8]) -> [u8; 2] {
    let crc = bytes.iter().fold(u16::MAX, |crc, byte| {
        let index = (crc ^ u16::from(*byte)) & 0xFF;
        crc >> 8 ^ VARIANT[index as usize]
    });
    (!crc).to_le_bytes()
}

/// The polynomial of Ethernet, 0x04C11DB7, reflected.
const INVARIANT: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// The polynomial 0x100B, reflected.
const VARIANT: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u16, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xD008 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::{invariant, variant};

    #[test]
    fn the_invariant_crc_is_that_of_ethernet() {
        // The check value of CRC-32 (ITU-T V.42).
        assert_eq!(u32::from_le_bytes(invariant(&[b"1234", b"56789"])), 0xCBF4_3926);
    }

    #[test]
    fn the_variant_crc_divides_by_its_polynomial() {
        // Division bit by bit: the register holds the remainder with the least significant bit first.
        let slow = |bytes: &[u8]| {
            let mut crc = 0xFFFF_u16;
            for bit in bytes.iter().flat_map(|byte| (0..8).map(move |bit| u16::from(byte >> bit & 1))) {
                let feedback = crc & 1 ^ bit;
                crc = crc >> 1 ^ if feedback == 1 { 0x100B_u16.reverse_bits() } else { 0 };
            }
            (!crc).to_le_bytes()
        };
        for bytes in [&b""[..], b"1", b"123456789", &[0xFF; 300]] {
            assert_eq!(variant(bytes), slow(bytes));
        }
        // All packets leave the same remainder behind their own check value.
        let whole = |bytes: &[u8]| variant(&[bytes, &variant(bytes)].concat());
        assert_eq!(whole(b"a packet"), whole(b"another packet"));
    }
}
