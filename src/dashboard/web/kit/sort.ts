/** How the rows of a table compare; a column without it cannot be sorted by. */
interface Sortable<Row> {
  readonly name: string;
  /** What is compared; rows without a value come last, whichever way is sorted. */
  readonly sortBy?: ((row: Row) => string | number | null) | undefined;
}

interface Sort {
  readonly name: string;
  readonly isDown: boolean;
}

/** The way rows are sorted, as the address keeps it: `failed` or, the other way around, `-failed`. */
export const sorting = { read, next, rows: sortedRows };

function read(text: string | null): Sort | undefined {
  if (text === null || text === '' || text === '-') return undefined;
  const isDown = text.startsWith('-');
  return { name: isDown ? text.slice(1) : text, isDown };
}

/** After a click on a column: what is largest first, then the other way around, then as it was. Texts begin with A. */
function next(current: Sort | undefined, name: string, isText: boolean): string | undefined {
  const order = isText ? [name, `-${name}`] : [`-${name}`, name];
  if (current?.name !== name) return order[0];
  const written = current.isDown ? `-${name}` : name;
  return written === order[0] ? order[1] : undefined;
}

function sortedRows<Row>(
  rows: readonly Row[],
  columns: readonly Sortable<Row>[],
  sort: Sort | undefined,
): readonly Row[] {
  const sortBy = columns.find(({ name }) => name === sort?.name)?.sortBy;
  if (sort === undefined || sortBy === undefined) return rows;
  const direction = sort.isDown ? -1 : 1;
  return rows.toSorted((a, b) => compare(sortBy(a), sortBy(b), direction));
}

function compare(a: string | number | null, b: string | number | null, direction: 1 | -1): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order = typeof a === 'string' || typeof b === 'string' ? String(a).localeCompare(String(b), 'en') : a - b;
  return order * direction;
}
