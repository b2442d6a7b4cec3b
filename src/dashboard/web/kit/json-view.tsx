import type { ComponentChildren } from 'preact';
import { isExactNumber } from '../json.ts';
import { CopyButton } from './copy.tsx';

/** Deeper parts, and those with more members, begin closed. */
const OPEN_DEPTH = 3;
const OPEN_MEMBERS = 60;

/** Any JSON value as a tree that opens and closes, with a button that copies all of it. */
export function JsonView({ value, label = 'JSON' }: { value: unknown; label?: string }) {
  return (
    <div class="json">
      <div class="json-tools">
        <CopyButton text={JSON.stringify(value, null, 2)} label={label} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard. */}
      <section class="json-tree" aria-label={label} tabIndex={0}>
        <Node value={value} depth={0} />
      </section>
    </div>
  );
}

interface NodeProps {
  readonly value: unknown;
  readonly depth: number;
  readonly name?: ComponentChildren;
}

function Node({ value, depth, name }: NodeProps) {
  if (typeof value !== 'object' || value === null || isExactNumber(value)) {
    return (
      <div class="json-line">
        {name}
        <Scalar value={value} />
      </div>
    );
  }
  const members = Array.isArray(value)
    ? value.map((item, index) => [String(index), item] as const)
    : Object.entries(value);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  if (members.length === 0) {
    return (
      <div class="json-line">
        {name}
        {open}
        {close}
      </div>
    );
  }
  return (
    <details open={depth < OPEN_DEPTH && members.length <= OPEN_MEMBERS}>
      <summary>
        {name}
        {open}
        <span class="json-closed">{` ${members.length} … ${close}`}</span>
      </summary>
      <div class="json-members">
        {members.map(([key, member]) => (
          <Node key={key} value={member} depth={depth + 1} name={<Name text={key} isIndex={Array.isArray(value)} />} />
        ))}
      </div>
      <div class="json-end">{close}</div>
    </details>
  );
}

function Name({ text, isIndex }: { text: string; isIndex: boolean }) {
  return isIndex ? (
    <span class="json-index">{`${text}: `}</span>
  ) : (
    <span class="json-key">{`${JSON.stringify(text)}: `}</span>
  );
}

function Scalar({ value }: { value: unknown }) {
  const kind = value === null ? 'null' : isExactNumber(value) ? 'number' : typeof value;
  return <span class={`json-${kind}`}>{JSON.stringify(value)}</span>;
}
