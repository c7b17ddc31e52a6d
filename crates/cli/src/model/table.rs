//! A table that the run writes twice, as CSV and as Parquet, with the same values.

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

pub(super) enum Values {
    Text(Vec<Arc<str>>),
    Count(Vec<u64>),
    /// Values that some rows lack.
    Some(Vec<Option<u64>>),
    /// Values rounded to this number of decimals, in both files.
    Number(Vec<f64>, usize),
}

pub(super) struct Column {
    pub name: String,
    pub values: Values,
}

impl Column {
    pub(super) fn new(name: impl Into<String>, values: Values) -> Self {
        Self { name: name.into(), values }
    }

    fn rows(&self) -> usize {
        match &self.values {
            Values::Text(values) => values.len(),
            Values::Count(values) => values.len(),
            Values::Some(values) => values.len(),
            Values::Number(values, _) => values.len(),
        }
    }

    fn declaration(&self) -> String {
        let kind = match &self.values {
            Values::Text(_) => "REQUIRED BYTE_ARRAY",
            Values::Count(_) => "REQUIRED INT64",
            Values::Some(_) => "OPTIONAL INT64",
            Values::Number(..) => "REQUIRED DOUBLE",
        };
        let meaning = if matches!(self.values, Values::Text(_)) { " (UTF8)" } else { "" };
        format!("{kind} {}{meaning};", self.name)
    }

    fn print(&self, row: usize, file: &mut impl Write) -> std::io::Result<()> {
        match &self.values {
            Values::Text(values) => file.write_all(values[row].as_bytes()),
            Values::Count(values) => write!(file, "{}", values[row]),
            Values::Some(values) => values[row].map_or(Ok(()), |value| write!(file, "{value}")),
            Values::Number(values, decimals) => write!(file, "{:.*}", *decimals, values[row]),
        }
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<()> {
        match &self.values {
            Values::Text(values) => {
                let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(value.as_ref())).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Values::Count(values) => {
                let values = values.iter().copied().map(signed).collect::<Result<Vec<i64>>>()?;
                writer.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            Values::Some(values) => {
                let is_there: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
                let values = values.iter().flatten().copied().map(signed).collect::<Result<Vec<i64>>>()?;
                writer.typed::<Int64Type>().write_batch(&values, Some(&is_there), None)?;
            }
            Values::Number(values, decimals) => {
                let values: Vec<f64> = values.iter().map(|value| rounded(*value, *decimals)).collect();
                writer.typed::<DoubleType>().write_batch(&values, None, None)?;
            }
        }
        Ok(())
    }
}

/// Converts to a signed integer, because most readers support only those.
fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| ParquetError::General(format!("{value} does not fit into a signed column")))
}

/// Rounds a value as the CSV prints it.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}

pub(super) struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// Creates a table. Panics unless all columns have the same length.
    pub(super) fn new(columns: Vec<Column>) -> Self {
        assert!(columns.windows(2).all(|pair| pair[0].rows() == pair[1].rows()));
        Self { columns }
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, Column::rows)
    }

    pub(super) fn csv(&self, file: &mut impl Write) -> std::io::Result<()> {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        writeln!(file, "{}", names.join(","))?;
        for row in 0..self.rows() {
            for (number, column) in self.columns.iter().enumerate() {
                file.write_all(if number == 0 { b"" } else { b"," })?;
                column.print(row, file)?;
            }
            file.write_all(b"\n")?;
        }
        Ok(())
    }

    pub(super) fn parquet(&self, file: &mut (impl Write + Send)) -> Result<()> {
        let declarations: Vec<String> = self.columns.iter().map(Column::declaration).collect();
        let schema = parse_message_type(&format!("message table {{ {} }}", declarations.join(" ")))?;
        let writer = concat!("softband version ", env!("CARGO_PKG_VERSION"));
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(writer.to_owned()).build();
        let mut file = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        if self.rows() > 0 {
            let mut group = file.next_row_group()?;
            for column in &self.columns {
                let mut writer = group.next_column()?.ok_or_else(|| ParquetError::General(format!("no room for {}", column.name)))?;
                column.write(&mut writer)?;
                writer.close()?;
            }
            group.close()?;
        }
        file.close().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Table, Values};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    fn table(rows: usize) -> Table {
        let numbers = || (0..rows as u64).map(|row| row * 1_000_000_007);
        Table::new(vec![
            Column::new("host", Values::Text(numbers().map(|number| format!("h{number}").into()).collect())),
            Column::new("bytes", Values::Count(numbers().collect())),
            Column::new("stall_ps", Values::Some(numbers().map(|number| (number % 2 == 0).then_some(number)).collect())),
            Column::new("share", Values::Number(numbers().map(|number| number as f64 / 3.0).collect(), 6)),
        ])
    }

    fn parquet(table: &Table) -> Vec<u8> {
        let mut file = Vec::new();
        table.parquet(&mut file).unwrap();
        file
    }

    #[test]
    fn both_files_have_the_same_values() {
        let table = table(3);
        let mut text = Vec::new();
        table.csv(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "host,bytes,stall_ps,share\nh0,0,0,0.000000\nh1000000007,1000000007,,333333335.666667\nh2000000014,2000000014,2000000014,666666671.333333\n"
        );
        let reader = SerializedFileReader::new(bytes::Bytes::from(parquet(&table))).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows[1], "{host: \"h1000000007\", bytes: 1000000007, stall_ps: null, share: 333333335.666667}");
    }

    #[test]
    fn the_same_table_has_the_same_bytes_and_may_be_empty_or_long() {
        for rows in [0, 1, 50_000] {
            let bytes = parquet(&table(rows));
            assert_eq!(bytes, parquet(&table(rows)));
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
            assert_eq!(reader.metadata().file_metadata().num_rows(), rows as i64);
        }
    }

    #[test]
    fn what_no_reader_could_read_is_an_error() {
        let table = Table::new(vec![Column::new("bytes", Values::Count(vec![u64::MAX]))]);
        assert!(table.parquet(&mut Vec::new()).unwrap_err().to_string().contains("does not fit"));
    }
}
