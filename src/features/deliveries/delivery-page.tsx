import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { ALL_FLOWS } from '../../dashboard/web/address.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { format } from '../../dashboard/web/format.ts';
import { parseJson } from '../../dashboard/web/json.ts';
import { CopyButton } from '../../dashboard/web/kit/copy.tsx';
import { JsonView } from '../../dashboard/web/kit/json-view.tsx';
import { Segments } from '../../dashboard/web/kit/list.tsx';
import { Loaded, Page, Panel } from '../../dashboard/web/kit/page.tsx';
import { Icon, ModePill } from '../../dashboard/web/kit/pill.tsx';
import { Time } from '../../dashboard/web/kit/time.tsx';
import { shownAt } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { sentence } from '../../dashboard/web/spelling.ts';
import { GatePanels, Hints } from './gate-results.tsx';
import { DeliveryPill, ReasonText } from './page/delivery-pill.tsx';

/** One delivery: the result of each gate, hints, and its content. */
export function DeliveryPage({ params }: { params: { readonly id?: string } }) {
  const { id = '' } = params;
  const delivery = useResource<Api['DeliveryDetail']>(`/webhooks/${encodeURIComponent(id)}`);
  const { data } = delivery;
  return (
    <Page
      title={`Delivery ${format.shortId(id)}`}
      trail={[['Deliveries', '/flows/deliveries']]}
      badges={data === undefined ? null : <DeliveryPill delivery={data} />}
      actions={
        <>
          <CopyButton text={id} label="the id">
            Copy id
          </CopyButton>
          {shownAt('deliveryTools', { id, delivery: data, refresh: delivery.refresh })}
        </>
      }
    >
      <Loaded of={delivery} lines={12}>
        {(detail) => <Detail delivery={detail} />}
      </Loaded>
    </Page>
  );
}

function Detail({ delivery }: { delivery: Api['DeliveryDetail'] }) {
  return (
    <>
      <Relatives delivery={delivery} />
      <Hints hints={delivery.hints} />
      <div class="split">
        <div>
          <GatePanels delivery={delivery} />
        </div>
        <div>
          <FactsPanel delivery={delivery} />
          <BodyPanel delivery={delivery} />
          <HeadersPanel headers={delivery.headers} />
        </div>
      </div>
    </>
  );
}

function Relatives({ delivery }: { delivery: Api['DeliveryDetail'] }) {
  const { redeliveredAs, redeliveredFrom, repeats, edited, detail } = delivery;
  return (
    <>
      {repeats === null ? null : (
        <p class="notice busy">
          <Icon name="replay" />
          <span>
            This repeats{' '}
            {repeats.deliveryId === null ? (
              'a delivery whose record was deleted'
            ) : (
              <a href={`/flows/deliveries/${repeats.deliveryId}`}>{format.shortId(repeats.deliveryId)}</a>
            )}
            , which started <a href={`/flows/runs/${repeats.runId}`}>this run</a>.
          </span>
        </p>
      )}
      {redeliveredAs === null ? null : (
        <p class="notice good">
          <Icon name="replay" />
          <span>
            This delivery was redelivered and accepted as{' '}
            <a href={`/flows/deliveries/${redeliveredAs}`}>{format.shortId(redeliveredAs)}</a>.
          </span>
        </p>
      )}
      {redeliveredFrom === null ? null : (
        <p class={edited ? 'notice warn' : 'notice busy'}>
          <Icon name="replay" />
          <span>
            This is a redelivery of{' '}
            <a href={`/flows/deliveries/${redeliveredFrom}`}>{format.shortId(redeliveredFrom)}</a>
            {edited ? `: ${detail ?? ''}. Its publisher did not send this body.` : ', which was refused or filtered.'}
          </span>
        </p>
      )}
    </>
  );
}

/** Facts that need a whole row: sentences and addresses. */
const WIDE: ReadonlySet<string> = new Set(['Address called', 'Redelivery']);

function FactsPanel({ delivery }: { delivery: Api['DeliveryDetail'] }) {
  const { flowId, triggerKey, receivedAt, clientIp, mode, scheme, statusCode, reason, bodyBytes, processingMs } =
    delivery;
  const flows = useResource<readonly Api['Flow'][]>(ALL_FLOWS);
  const name = flows.data?.find(({ id }) => id === flowId)?.name ?? flowId;
  const facts: readonly (readonly [string, ComponentChildren])[] = [
    ['Received', <Time key="t" at={receivedAt} withClock />],
    ['Flow', flowId === null ? 'unknown' : <a href={`/flows/flows/${flowId}`}>{name}</a>],
    ['Trigger', triggerKey ?? '–'],
    ['Run', <RunOf key="n" delivery={delivery} />],
    ...(delivery.runs ?? [])
      .slice(1)
      .map(
        (share) =>
          [
            `Also ${flows.data?.find(({ id }) => id === share.flowId)?.name ?? share.flowId}`,
            <SharedRun key={share.flowId} share={share} />,
          ] as const,
      ),
    ['Response', statusCode === 0 ? 'none' : String(statusCode)],
    ['Reason', <ReasonText key="r" reason={reason} />],
    ['Mode', <ModePill key="m" mode={mode} />],
    ['Scheme', scheme ?? 'none'],
    [
      'Client',
      <span key="c" class="mono">
        {clientIp}
      </span>,
    ],
    ...Object.entries(delivery.searchKeys).map(([key, value]) => [`Search key ${key}`, value] as const),
    ['Size', format.bytes(bodyBytes)],
    ['Took', format.duration(processingMs)],
    ...(delivery.usedPreviousKey ? [['Key', 'the previous one'] as const] : []),
    ...(delivery.requestUrl === null
      ? []
      : [['Address called', <UrlText key="u" url={delivery.requestUrl} />] as const]),
    ...(delivery.redelivery === null || delivery.redelivery.possible
      ? []
      : [['Redelivery', `Not possible. ${sentence(delivery.redelivery.message)}`] as const]),
  ];
  return (
    <Panel title="Facts">
      <dl class="facts">
        {facts.map(([term, value]) => (
          <div key={term} class={WIDE.has(term) ? 'wide' : ''}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

const SHARED = {
  duplicate: 'a duplicate',
  filtered: 'filtered',
  answered: 'for steps that wait',
  closed: 'closed, so it took nothing',
  discarded: 'held, and discarded',
  unevaluated: 'an expression failed',
} as const;

/** The result of the delivery at another flow that shares the slug. */
function SharedRun({ share: { runId, outcome } }: { share: NonNullable<Api['Delivery']['runs']>[number] }) {
  const told = outcome === null ? (runId === null ? 'none' : undefined) : SHARED[outcome];
  if (runId === null) return told ?? 'none';
  return (
    <>
      <a href={`/flows/runs/${runId}`}>{format.shortId(runId)}</a>
      {told === undefined ? '' : ` (${told})`}
    </>
  );
}

function RunOf({ delivery: { runId, held } }: { delivery: Api['Delivery'] }) {
  if (runId === null) return 'none';
  if (held) return 'starts once the flow is enabled or resumed';
  return <a href={`/flows/runs/${runId}`}>{format.shortId(runId)}</a>;
}

function UrlText({ url }: { url: string }) {
  return <span class="mono break">{url}</span>;
}

function HeadersPanel({ headers }: { headers: Readonly<Record<string, string>> }) {
  const lines = Object.entries(headers);
  return (
    <Panel
      title="Headers"
      aside={<CopyButton text={lines.map(([name, value]) => `${name}: ${value}`).join('\n')} label="the headers" />}
    >
      <dl class="pairs">
        {lines.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

const VIEWS = [
  { value: 'tree', text: 'Tree' },
  { value: 'raw', text: 'Raw' },
];

/** The body as a tree if it is JSON, and as it came. */
function BodyPanel({ delivery }: { delivery: Api['Delivery'] }) {
  const { body, bodyEncoding, bodyTruncated, bodyBytes, runId } = delivery;
  const [view, setView] = useState('tree');
  const parsed = body === null || bodyEncoding === 'base64' ? undefined : parse(body);
  return (
    <Panel
      title="Body"
      aside={
        <>
          {bodyTruncated ? `first 64 KiB of ${format.bytes(bodyBytes)}` : format.bytes(bodyBytes)}
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
        The run keeps the body: <a href={`/flows/runs/${runId}?view=input`}>see its input</a>.
      </p>
    );
  }
  return <p class="muted">{count === 0 ? 'The delivery had no body.' : 'The body was not stored.'}</p>;
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
