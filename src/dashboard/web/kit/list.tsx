import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { isTotalBound, RECENT, sorting } from '../address.ts';
import { format } from '../format.ts';
import { useQuery } from '../router.ts';
import { Empty } from './page.tsx';
import { Icon } from './pill.tsx';
import { Time } from './time.tsx';

export interface Column<Row> {
  readonly name: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly align?: 'end';
  /** Hidden on narrow screens. */
  readonly isMinor?: boolean;
  /** Uses the remaining width and is cut to one line, on wide screens. */
  readonly fills?: boolean;
  /** The value to sort by after a click on the heading; only for complete lists. */
  readonly sortBy?: (row: Row) => string | number | null;
}

interface TableProps<Row> {
  /** The table's content, for readers who do not see the heading. */
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** The target of a row; its first cell is the link, and a click anywhere in the row follows it. */
  readonly hrefOf?: (row: Row) => string;
  /** Whether older rows are shown while newer ones are loading. */
  readonly isStale?: boolean;
}

export function Table<Row>({ label, columns, rows, keyOf, hrefOf, isStale = false }: TableProps<Row>) {
  const [query] = useQuery();
  const sort = sorting.read(query.get('sort'));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    <section class={`table-scroll ${isStale ? 'stale' : ''}`} aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) =>
              column.sortBy === undefined ? (
                <th key={column.name} scope="col" class={classOf(column)}>
                  {column.name}
                </th>
              ) : (
                <SortHeading key={column.name} column={column} isText={typeof firstValue(column, rows) === 'string'} />
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {sorting.rows(rows, columns, sort).map((row) => (
            <TableRow key={keyOf(row)} columns={columns} row={row} href={hrefOf?.(row)} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function firstValue<Row>({ sortBy }: Column<Row>, [first]: readonly Row[]): unknown {
  return first === undefined ? null : sortBy?.(first);
}

/** A heading that sorts; the address stores the column. */
function SortHeading<Row>({ column, isText }: { column: Column<Row>; isText: boolean }) {
  const [query, changeQuery] = useQuery();
  const sort = sorting.read(query.get('sort'));
  const isSorted = sort?.name === column.name;
  const order = isSorted ? (sort.isDown ? 'descending' : 'ascending') : 'none';
  return (
    <th scope="col" class={classOf(column)} aria-sort={order}>
      <button
        type="button"
        class={`sort ${order}`}
        onClick={() => changeQuery({ sort: sorting.next(sort, column.name, isText) })}
      >
        {column.name}
        <Icon name={isSorted && !sort.isDown ? 'up' : 'down'} />
      </button>
    </th>
  );
}

interface RowProps<Row> {
  readonly columns: readonly Column<Row>[];
  readonly row: Row;
  readonly href: string | undefined;
}

function TableRow<Row>({ columns, row, href }: RowProps<Row>) {
  const link = useRef<HTMLAnchorElement>(null);
  const follow = (event: MouseEvent) => {
    const isOnControl = event.target instanceof Element && event.target.closest('a, button, input, label') !== null;
    const isSelecting = getSelection()?.isCollapsed === false;
    if (!isOnControl && !isSelecting) link.current?.click();
  };
  return (
    <tr class={href === undefined ? '' : 'opens'} onClick={follow}>
      {columns.map((column, index) => (
        <td key={column.name} class={classOf(column)}>
          {index === 0 && href !== undefined ? (
            <a data-row href={href} ref={link}>
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

function classOf({ align, isMinor, fills }: Pick<Column<never>, 'align' | 'isMinor' | 'fills'>): string {
  return [align === 'end' ? 'end' : '', isMinor ? 'minor' : '', fills ? 'fills' : ''].filter(Boolean).join(' ');
}

/** The search keys of a row, in one column; no column if no row has any. */
export function keyColumns<Row extends { readonly searchKeys: Readonly<Record<string, string>> }>(
  rows: readonly Row[],
): Column<Row>[] {
  if (rows.every(({ searchKeys }) => Object.keys(searchKeys).length === 0)) return [];
  return [{ name: 'Search keys', fills: true, isMinor: true, cell: ({ searchKeys }) => <Keys keys={searchKeys} /> }];
}

/** Keys that every publisher's deliveries have mean less to people than those of a manifest, and an id the least. */
const weightOf = (name: string) => ['event', 'id'].indexOf(name);

function Keys({ keys }: { keys: Readonly<Record<string, string>> }) {
  const all = Object.entries(keys).sort(
    ([one], [other]) => weightOf(one) - weightOf(other) || one.localeCompare(other),
  );
  if (all.length === 0) return <span class="muted">–</span>;
  return (
    <span class="search-keys" title={all.map(([name, value]) => `${name}: ${value}`).join('\n')}>
      {all.map(([name, value]) => [
        <span key={name}>
          <span class="muted">{name}</span> {value}
        </span>,
        ' ',
      ])}
    </span>
  );
}

/** The list's current page, from the address, and buttons to the pages around it. */
export function Pager({ total, skip, take }: { total: number; skip: number; take: number }) {
  const [query, changeQuery] = useQuery();
  const go = (next: number) => changeQuery({ skip: next <= 0 ? undefined : String(next) });
  if (total <= take && skip === 0) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <span>{`${format.count(Math.min(skip + 1, total))}–${format.count(Math.min(skip + take, total))} of ${format.count(total)}${isTotalBound(query, total) ? '+' : ''}`}</span>
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

/** Where a bounded search stopped, with a button to continue; nothing if it saw all. */
export function SearchedUntil({ at }: { at: string | undefined }) {
  const [, changeQuery] = useQuery();
  if (at === undefined) return null;
  // Some entries of the same millisecond may be missing.
  const until = new Date(Date.parse(at) + 1).toISOString();
  return (
    <p class="notice">
      <Icon name="search" />
      <span>
        {`The newest ${format.count(SEARCHED)} that match the other filters were searched, back to `}
        <Time at={at} withClock />.{' '}
        <button type="button" class="link" onClick={() => changeQuery({ until, last: undefined, skip: undefined })}>
          Search what is older
        </button>
      </span>
    </p>
  );
}

const SEARCHED = 10_000;

/** Shown if no entry matches the filters; `path` is the unfiltered list. */
export function NoMatch({ what, path }: { what: string; path: string }) {
  return (
    <Empty icon="search" title={`No ${what} match`}>
      <p>
        <a href={path}>Clear the filters</a> to see all {what}.
      </p>
    </Empty>
  );
}

const TYPING_MS = 250;

interface Choice {
  readonly value: string;
  readonly text: string;
}

/** A filter in the address; the empty value comes first. Any change leads back to the first page. */
export function SelectFilter({ name, label, choices }: { name: string; label: string; choices: readonly Choice[] }) {
  const [query, changeQuery] = useQuery();
  const value = query.get(name) ?? '';
  const isKnown = choices.some((choice) => choice.value === value);
  return (
    <label class="filter">
      <span class="unseen">{label}</span>
      <select
        value={value}
        class={value === '' ? '' : 'set'}
        onChange={(event) => changeQuery({ [name]: event.currentTarget.value, skip: undefined })}
      >
        {isKnown ? null : <option value={value}>{value}</option>}
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.text}
          </option>
        ))}
      </select>
    </label>
  );
}

interface FlowChoices {
  readonly data: readonly { readonly id: string; readonly name: string; readonly builtIn: boolean }[] | undefined;
  readonly error: unknown;
}

export function FlowFilter({ flows: { data, error } }: { flows: FlowChoices }) {
  const none = data === undefined && error !== undefined ? 'Flows could not be read' : 'All flows';
  const choices = (data ?? []).map(({ id, name, builtIn }) => ({
    value: id,
    text: builtIn ? `${name} (built in)` : name,
  }));
  return <SelectFilter name="flowId" label="Flow" choices={[{ value: '', text: none }, ...choices]} />;
}

const HOUR_MS = 3_600_000;

/** The time span of a list: one that ends now, or one between two times. The address stores it. */
export function SpanFilter() {
  const [query, changeQuery] = useQuery();
  const isOwn = ['since', 'until'].some((name) => (query.get(name) ?? '') !== '');
  const value = isOwn ? 'own' : (query.get('last') ?? '');
  const choose = (chosen: string) => {
    const none = { last: undefined, since: undefined, until: undefined, skip: undefined };
    if (chosen !== 'own') return changeQuery({ ...none, last: chosen });
    const hourAgo = Math.floor((Date.now() - HOUR_MS) / 60_000) * 60_000;
    return changeQuery({ ...none, since: new Date(hourAgo).toISOString() });
  };
  return (
    <>
      <label class="filter">
        <span class="unseen">Time</span>
        <select value={value} class={value === '' ? '' : 'set'} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="">Any time</option>
          {RECENT.map((recent) => (
            <option key={recent.value} value={recent.value}>
              {recent.text}
            </option>
          ))}
          <option value="own">From … to …</option>
        </select>
      </label>
      {isOwn ? (
        <div class="filter span">
          <TimeInput name="since" label="From" />
          <TimeInput name="until" label="To" />
          <span class="muted nowrap" title="Times are those of your clock; the address has them in UTC">
            {format.zone(Date.now())}
          </span>
        </div>
      ) : null}
    </>
  );
}

/** A time that the address stores in UTC; it is shown and typed in the reader's time zone. */
function TimeInput({ name, label }: { name: string; label: string }) {
  const [query, changeQuery] = useQuery();
  const inAddress = query.get(name) ?? '';
  const change = (typed: string) => {
    const ms = Date.parse(typed);
    changeQuery({ [name]: Number.isNaN(ms) ? undefined : new Date(ms).toISOString(), skip: undefined });
  };
  return (
    <label class="time">
      <span>{label}</span>
      <input
        type="datetime-local"
        // The API cannot read a year of five digits.
        max="9999-12-31T23:59"
        class={inAddress === '' ? '' : 'set'}
        value={format.inputTime(Date.parse(inAddress))}
        onChange={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}

interface SearchProps {
  readonly label: string;
  readonly name?: string;
  /** Not the field that the key `/` focuses. */
  readonly isSecond?: boolean;
}

/** A text that the address stores, shortly after the last key. */
export function SearchFilter({ label, name = 'search', isSecond = false }: SearchProps) {
  const [query, changeQuery] = useQuery();
  const inAddress = query.get(name) ?? '';
  const [text, setText] = useState(inAddress);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(inAddress), [inAddress]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (next: string) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => changeQuery({ [name]: next.trim(), skip: undefined }), TYPING_MS);
  };
  return (
    <label class={`filter search ${isSecond ? 'second' : ''}`}>
      <span class="unseen">{label}</span>
      <Icon name="search" />
      <input
        type="search"
        data-search={isSecond ? undefined : ''}
        placeholder={label}
        maxLength={200}
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
      />
      {isSecond ? null : <kbd>/</kbd>}
    </label>
  );
}

interface SegmentsProps {
  readonly label: string;
  readonly choices: readonly Choice[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A few choices side by side, one of which is chosen. */
export function Segments({ label, choices, value, onChange }: SegmentsProps) {
  return (
    <fieldset class="segments">
      <legend class="unseen">{label}</legend>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          onClick={() => onChange(choice.value)}
        >
          {choice.text}
        </button>
      ))}
    </fieldset>
  );
}
