import { COUNTS } from '../tables.ts';

/**
 * Translates a statement of `sql` to SQLite. Statements are written for PostgreSQL, in words that both understand
 * except for this list; `?` is a value, and values keep their places.
 *
 * - the schema's name, casts, `COLLATE "C"` and locks go: one process has the database, and one connection writes it
 * - `= ANY (list)`, `<> ALL (list)`, `unnest(list) AS alias (column)` and `jsonb_to_recordset(rows) AS alias (columns)`
 *   read a value that is bound as JSON
 * - a comment that begins with `sqlite:` becomes text, such as a hint which index to use; one that begins with
 *   `sqlite instead:` replaces the word before it
 * - counts are read from views that include appended counts; before a statement that deletes counts, the appended ones
 *   are added to the tables
 * - a plus before a value, written as such a comment, keeps SQLite from preparing a statement again for each value that
 *   it compares an indexed column with: where it also sorts, that takes ten times as long as the statement
 * - a few functions have another name; neither `least` nor `greatest` may meet a null, which SQLite does not skip
 */
export function toSqlite(text: string): string {
  const rules = deletesCounts(text) ? DIALECT : [READS_COUNTS, ...DIALECT];
  return rules.reduce((sql, [pattern, replacement]) => sql.replace(pattern, replacement as string), text);
}

const TYPE =
  '(?:text|uuid|bigint|integer|smallint|boolean|bytea|numeric|jsonb?|double precision|float8|real)(?:\\[\\])?';
const LIST = `(\\?)(?:::${TYPE})?`;

const ANY_COUNTS = `(${[...COUNTS].join('|')})\\b`;
const DELETES_COUNTS = new RegExp(`\\bDELETE FROM (?:sluice\\.|main\\.)?${ANY_COUNTS}`);

/** Whether a statement deletes counts. */
export function deletesCounts(text: string): boolean {
  return DELETES_COUNTS.test(text);
}

type Replacement = string | ((...found: string[]) => string);

const READS_COUNTS = [new RegExp(`\\bFROM (?:sluice\\.)?${ANY_COUNTS}`, 'g'), 'FROM counted_$1'] as const;

const DIALECT: readonly (readonly [pattern: RegExp, replacement: Replacement])[] = [
  [/\/\*sqlite: (.*?) ?\*\//g, '$1'],
  [/\bsluice\./g, ''],
  [/\b\w+ \/\*sqlite instead: (.*?) ?\*\//g, '$1'],
  // The number of the last nonce.
  [
    /\(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM nonces_seq_seq\)/g,
    '(SELECT coalesce(max(seq), 0) FROM nonces)',
  ],
  // The text in a column between a given text and the next quotation mark.
  [
    /split_part\(split_part\((\w+), '([^']*)', 2\), '"', 1\)/g,
    (...[, column = '', before = '']) => {
      const start = `instr(${column}, '${before}') + ${before.length}`;
      return `substr(${column}, ${start}, instr(substr(${column}, ${start}), '"') - 1)`;
    },
  ],
  // LIKE itself folds ASCII.
  [/\blower\(([\w?]+)(?:::text)? COLLATE "C"\)/g, '$1'],
  [/\blower\(([\w?]+)(?:::text)? COLLATE "und-x-icu"\)/g, 'fold($1)'],
  [/ COLLATE "C"/g, ''],
  [/\s+FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)(?: OF \w+)?(?: SKIP LOCKED| NOWAIT)?/g, ''],
  [/= ANY ?\(ARRAY\(/g, 'IN (SELECT * FROM ('],
  [new RegExp(`= ANY ?\\(${LIST}\\)`, 'g'), 'IN (SELECT value FROM json_each($1))'],
  [new RegExp(`<> ALL ?\\(${LIST}\\)`, 'g'), 'NOT IN (SELECT value FROM json_each($1))'],
  [new RegExp(`\\bunnest\\(${LIST}\\) AS (\\w+) \\((\\w+)\\)`, 'g'), '(SELECT value AS $3 FROM json_each($1)) AS $2'],
  [
    new RegExp(`\\bjsonb_to_recordset\\(${LIST}\\) AS (\\w+) \\(([^)]*)\\)`, 'g'),
    (...[, rows = '', alias = '', columns = '']) => {
      const names = columns.split(',').map((column) => column.trim().split(/\s+/)[0]);
      return `(SELECT ${names.map((name) => `value ->> '${name}' AS ${name}`).join(', ')} FROM json_each(${rows})) AS ${alias}`;
    },
  ],
  [new RegExp(`::${TYPE}`, 'g'), ''],
  [/\bleast\(/g, 'min('],
  [/\bgreatest\(/g, 'max('],
  [/\bstrpos\(/g, 'instr('],
  [/\bjson_object_agg\(/g, 'json_group_object('],
  [/\bjson_agg\(/g, 'json_group_array('],
  [/\bconvert_to\((\w+), 'UTF8'\)/g, 'CAST($1 AS BLOB)'],
];

/** Names of columns that the statement casts to boolean: SQLite has no type for the results of expressions. */
export function booleansOf(text: string): string[] {
  return [...text.matchAll(/::boolean AS "?(\w+)"?/g)].map(([, name = '']) => name);
}
