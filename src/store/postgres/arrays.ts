import type { SqlValue } from './sql.ts';

/** A value of a row; an absent one is null. */
type Value = string | number | boolean | null | undefined | Uint8Array;

type Given = Readonly<Record<string, Value>>;

/** PostgreSQL's numbers for the types of elements; its manual, `pg_type`. */
const OIDS = { bytea: 17, text: 25 } as const;
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const NULL_LENGTH = -1;
const ROOM = ' '.repeat(LENGTH_BYTES);

/** Makes rows a table named `given` in a statement; `types` are its columns and their SQL types. */
type GivenForm = (types: Readonly<Record<string, string>>, rows: readonly Given[], bind: Bind) => string;
type Bind = (value: SqlValue) => string;

/**
 * How one statement gets its rows: as one parameter a value if no list has more than one row, otherwise all as arrays.
 * PostgreSQL keeps each text with its plan, so one form for each list would be too many.
 */
export function givenForm(lists: Iterable<readonly Given[]>): GivenForm {
  for (const { length } of lists) if (length > 1) return givenTable;
  return givenRow;
}

const givenRow: GivenForm = (types, [row], bind) => {
  const values = Object.keys(types).map((name) => `${bind(row?.[name] ?? null)}::${types[name]} AS ${name}`);
  return `(SELECT ${values.join(', ')}) AS given`;
};

/** An array for each column: PostgreSQL takes more than twice as long to read the same rows as JSON. */
const givenTable: GivenForm = (types, rows, bind) => {
  const names = Object.keys(types);
  const arrays = names.map((name) => {
    const values = rows.map((row) => row[name] ?? null);
    return types[name] === 'bytea' ? `${bind(bytesArray(values))}::bytea[]` : `${bind(textArray(values))}::text[]`;
  });
  const columns = names.map((name) => `${name}::${types[name]} AS ${name}`);
  return `(SELECT ${columns.join(', ')} FROM unnest(${arrays.join(', ')}) AS sent (${names.join(', ')})) AS given`;
};

/** A column in PostgreSQL's binary form of arrays: nothing is escaped, so nothing is parsed. */
function textArray(values: readonly Value[]): Buffer {
  const texts = values.map((value) => (value === null ? null : String(value)));
  // One write for all texts, with room for the length of each.
  const all = ROOM + texts.join(ROOM);
  const bytes = Buffer.byteLength(all);
  if (bytes !== all.length || all.includes('\0')) {
    // Half of a surrogate pair becomes the same character when the text is encoded.
    return arrayOf(
      OIDS.text,
      texts.map((text) => (text === null ? null : Buffer.from(text.replaceAll('\0', '\ufffd')))),
    );
  }
  const array = begin(OIDS.text, values.length, bytes);
  array.write(all, HEADER_BYTES, 'latin1');
  let at = HEADER_BYTES;
  for (const text of texts) at = array.writeInt32BE(text?.length ?? NULL_LENGTH, at) + (text?.length ?? 0);
  return array;
}

function bytesArray(values: readonly Value[]): Buffer {
  return arrayOf(
    OIDS.bytea,
    values.map((value) => (value instanceof Uint8Array ? value : null)),
  );
}

function arrayOf(oid: number, values: readonly (Uint8Array | null)[]): Buffer {
  const bytes = values.reduce((sum, value) => sum + LENGTH_BYTES + (value?.byteLength ?? 0), 0);
  const array = begin(oid, values.length, bytes);
  let at = HEADER_BYTES;
  for (const value of values) {
    at = array.writeInt32BE(value?.byteLength ?? NULL_LENGTH, at);
    if (value === null) continue;
    array.set(value, at);
    at += value.byteLength;
  }
  return array;
}

/** One dimension that begins at 1 and may contain nulls. */
function begin(oid: number, length: number, bytes: number): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  let at = 0;
  for (const field of [1, 1, oid, length, 1]) at = array.writeInt32BE(field, at);
  return array;
}
