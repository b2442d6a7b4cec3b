import type { SqlValue } from './sql.ts';

/** A value of a row; one that is absent is null. */
type Value = string | number | boolean | null | undefined | Uint8Array;

type Given = Readonly<Record<string, Value>>;

/** What PostgreSQL calls the types of elements by; its manual, `pg_type`. */
const OIDS = { bytea: 17, text: 25 } as const;
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;
const MOST_BYTES_OF_A_UNIT = 3;

/**
 * Makes rows a table of a statement that is called `given`: an array for each column, whose types are SQL's. As JSON the
 * same rows take PostgreSQL more than twice as long to read. One row is a parameter for each value.
 */
export function givenTable(
  types: Readonly<Record<string, string>>,
  rows: readonly Given[],
  bind: (value: SqlValue) => string,
): string {
  const names = Object.keys(types);
  const [first, second] = rows;
  if (first !== undefined && second === undefined) {
    const values = names.map((name) => `${bind(first[name] ?? null)}::${types[name]} AS ${name}`);
    return `(SELECT ${values.join(', ')}) AS given`;
  }
  const arrays = names.map((name) => {
    const element = types[name] === 'bytea' ? 'bytea' : 'text';
    return `${bind(arrayOf(element, rows, name))}::${element}[]`;
  });
  const columns = names.map((name) => `${name}::${types[name]} AS ${name}`);
  return `(SELECT ${columns.join(', ')} FROM unnest(${arrays.join(', ')}) AS sent (${names.join(', ')})) AS given`;
}

/** A column as PostgreSQL sends and takes arrays in binary form: nothing in it is escaped, so nothing is parsed. */
function arrayOf(element: keyof typeof OIDS, rows: readonly Given[], name: string): Buffer {
  const values: (string | Uint8Array | null)[] = [];
  let most = HEADER_BYTES;
  for (const row of rows) {
    const value = sentOf(row[name]);
    values.push(value);
    most += LENGTH_BYTES + (typeof value === 'string' ? value.length * MOST_BYTES_OF_A_UNIT : (value?.byteLength ?? 0));
  }
  const array = Buffer.allocUnsafe(most);
  const hasNull = values.includes(null) ? 1 : 0;
  const dimensions = 1;
  const firstIndex = 1;
  let at = 0;
  for (const field of [dimensions, hasNull, OIDS[element], values.length, firstIndex])
    at = array.writeInt32BE(field, at);
  for (const value of values) {
    const begin = at + LENGTH_BYTES;
    let length = -1;
    if (typeof value === 'string') length = array.write(value, begin);
    else if (value !== null) {
      array.set(value, begin);
      length = value.byteLength;
    }
    array.writeInt32BE(length, at);
    at = begin + Math.max(0, length);
  }
  return array.subarray(0, at);
}

function sentOf(value: Value): string | Uint8Array | null {
  if (value === null || value === undefined || value instanceof Uint8Array) return value ?? null;
  // Half of a surrogate pair becomes the same character when the text is written.
  return typeof value === 'string' ? value.replaceAll('\0', '\ufffd') : String(value);
}
