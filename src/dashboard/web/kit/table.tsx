import type { ComponentChildren } from 'preact';
import { count } from '../format.ts';
import { navigate, useQuery } from '../router.ts';
import { Icon } from './icon.tsx';

export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly align?: 'end';
  /** Left out where the screen is narrow. */
  readonly isMinor?: boolean;
}

interface TableProps<Row> {
  /** What the table lists, for those who do not see the heading. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** Where a row leads; its first cell is the link, a click anywhere in it follows. */
  readonly hrefOf?: (row: Row) => string;
  /** Older rows are shown while newer ones are on their way. */
  readonly isStale?: boolean;
}

export function Table<Row>({ label, columns, rows, keyOf, hrefOf, isStale = false }: TableProps<Row>) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    <section class={`table-scroll ${isStale ? 'stale' : ''}`} aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classOf(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <TableRow key={keyOf(row)} columns={columns} row={row} href={hrefOf?.(row)} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface RowProps<Row> {
  readonly columns: readonly Column<Row>[];
  readonly row: Row;
  readonly href: string | undefined;
}

function TableRow<Row>({ columns, row, href }: RowProps<Row>) {
  const follow = (event: MouseEvent) => {
    const isOnControl = event.target instanceof Element && event.target.closest('a, button, input, label') !== null;
    const isSelecting = getSelection()?.isCollapsed === false;
    if (href !== undefined && !isOnControl && !isSelecting) navigate(href);
  };
  return (
    <tr class={href === undefined ? '' : 'opens'} onClick={follow}>
      {columns.map((column, index) => (
        <td key={column.name} class={classOf(column)}>
          {index === 0 && href !== undefined ? (
            <a data-row href={href}>
              {column.cell(row)}
            </a>
          ) : (
            column.cell(row)
          )}
        </td>
      ))}
    </tr>
  );
}

function classOf({ align, isMinor }: Pick<Column<never>, 'align' | 'isMinor'>): string {
  return [align === 'end' ? 'end' : '', isMinor ? 'minor' : ''].join(' ').trim();
}

/** The page of a list that the address says, and the steps to those beside it. */
export function Pager({ total, skip, take }: { total: number; skip: number; take: number }) {
  const [, changeQuery] = useQuery();
  const go = (next: number) => changeQuery({ skip: next <= 0 ? undefined : String(next) });
  if (total <= take && skip === 0) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <span>{`${count(Math.min(skip + 1, total))}–${count(Math.min(skip + take, total))} of ${count(total)}`}</span>
      <button type="button" class="icon-button" disabled={skip === 0} onClick={() => go(skip - take)}>
        <Icon name="left" />
        <span class="unseen">Newer</span>
      </button>
      <button type="button" class="icon-button" disabled={skip + take >= total} onClick={() => go(skip + take)}>
        <Icon name="right" />
        <span class="unseen">Older</span>
      </button>
    </nav>
  );
}

/** Reads `skip` of the address; what is no whole number is the beginning. */
export function skipOf(query: URLSearchParams): number {
  const skip = Number(query.get('skip') ?? 0);
  return Number.isSafeInteger(skip) && skip > 0 ? skip : 0;
}
