import { useState } from 'preact/hooks';
import type { Delivery } from '../api-types.ts';
import { bytes } from '../format.ts';
import { parseJson } from '../json.ts';
import { CopyButton } from '../kit/copy.tsx';
import { Segments } from '../kit/filters.tsx';
import { JsonView } from '../kit/json-view.tsx';
import { Panel } from '../kit/page.tsx';

const VIEWS = [
  { value: 'tree', text: 'Tree' },
  { value: 'raw', text: 'Raw' },
];

/** The body as a tree where it is JSON, and as it came. */
export function BodyPanel({ delivery }: { delivery: Delivery }) {
  const { body, bodyEncoding, bodyTruncated, bodyBytes, runId } = delivery;
  const [view, setView] = useState('tree');
  const parsed = body === null || bodyEncoding === 'base64' ? undefined : parse(body);
  return (
    <Panel
      title="Body"
      aside={
        <>
          {bodyTruncated ? `first 64 KiB of ${bytes(bodyBytes)}` : bytes(bodyBytes)}
          {bodyEncoding === 'base64' ? ', as Base64' : ''}
          {parsed === undefined ? null : <Segments label="View" choices={VIEWS} value={view} onChange={setView} />}
        </>
      }
    >
      {body === null ? <NoBody runId={runId} bytes={bodyBytes} /> : null}
      {body !== null && parsed !== undefined && view === 'tree' ? (
        <JsonView value={parsed.value} label="the body" />
      ) : null}
      {body !== null && (parsed === undefined || view === 'raw') ? <Raw text={body} /> : null}
    </Panel>
  );
}

function NoBody({ runId, bytes: count }: { runId: string | null; bytes: number }) {
  if (runId !== null) {
    return (
      <p class="muted">
        The run has it: <a href={`/flows/runs/${runId}`}>see what it was started with</a>.
      </p>
    );
  }
  return <p class="muted">{count === 0 ? 'It had none.' : 'None of its bytes were kept.'}</p>;
}

function Raw({ text }: { text: string }) {
  return (
    <div class="json">
      <div class="json-tools">
        <CopyButton text={text} label="the body" />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard. */}
      <pre class="raw" tabIndex={0}>
        {text}
      </pre>
    </div>
  );
}

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: parseJson(text) };
  } catch {
    return undefined;
  }
}
