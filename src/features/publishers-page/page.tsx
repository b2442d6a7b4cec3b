import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Api } from '../../dashboard/web/api-types.ts';
import { CodeLine, CopyButton } from '../../dashboard/web/kit/copy.tsx';
import { Empty, Loaded, Page, Panel } from '../../dashboard/web/kit/page.tsx';
import { Icon } from '../../dashboard/web/kit/pill.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { may } from '../../dashboard/web/scopes.ts';
import { newGuid } from '../deploy-page/page/guid.ts';
import {
  linksIn,
  manifestFor,
  type Publisher,
  piecesOf,
  publishersIn,
  titleOf,
  urlFor,
} from '../deploy-page/page/publishers.ts';
import { CertaintyPill, PublishersPage } from './publishers-page.tsx';

const TRAIL = [['Flows', '/flows/flows'] as const, ['Publishers', '/flows/publishers'] as const];

/** One publisher: what to do there, a trigger for it, and what its signature covers. */
function PublisherPage({ params }: { params: { readonly name?: string } }) {
  const schemes = useResource<readonly Api['Scheme'][]>('/schemes');
  const publisher = publishersIn(schemes.data ?? []).find(({ name }) => name === params.name);
  return (
    <Page
      title={publisher === undefined ? 'Publisher' : titleOf(publisher)}
      trail={TRAIL}
      badges={publisher === undefined ? null : <CertaintyPill certainty={publisher.certainty} />}
    >
      <Loaded of={schemes} lines={8}>
        {() =>
          publisher === undefined ? (
            <Empty icon="search" title="There is no such publisher">
              <p>
                <a href="/flows/publishers">All publishers</a>
              </p>
            </Empty>
          ) : (
            <SetUp publisher={publisher} />
          )
        }
      </Loaded>
    </Page>
  );
}

function SetUp({ publisher }: { publisher: Publisher }) {
  const [id] = useState(newGuid);
  const { name, setUp } = publisher;
  const url = urlFor(publisher);
  const manifest = JSON.stringify(manifestFor(publisher, id), null, 2);
  return (
    <div class="publisher">
      <div class="stack">
        <Panel title={`At ${titleOf(publisher)}`}>
          <div class="stack">
            <ol class="steps">
              {setUp.clickPath.map((step) => (
                <li key={step}>
                  <Markdown text={stepText(step, url)} />
                </li>
              ))}
            </ol>
            <CodeLine text={url} label="the URL" />
            <p class="muted">YOUR-HOST is the public address of this service.</p>
          </div>
        </Panel>
        <Panel title="What is known">
          <Facts publisher={publisher} />
        </Panel>
      </div>
      <Panel
        title="The trigger"
        aside={
          <>
            <CopyButton text={manifest} label="the manifest">
              Copy
            </CopyButton>
            {may('deploy') ? (
              <a class="button" href={`/flows/flows/new?publisher=${encodeURIComponent(name)}`}>
                <Icon name="upload" />
                Deploy it…
              </a>
            ) : null}
          </>
        }
      >
        <div class="stack">
          <p>
            A flow that logs each delivery, ready to copy. Put the values that <code>env:</code> names into the
            environment of the service.
          </p>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard. */}
          <pre class="raw" tabIndex={0}>
            {manifest}
          </pre>
        </div>
      </Panel>
    </div>
  );
}

/** The text comes from the documentation, where the trigger is below. */
const stepText = (step: string, url: string) =>
  step.replaceAll('{URL}', url).replaceAll('the trigger below', 'this trigger');

function Facts({ publisher }: { publisher: Publisher }) {
  const { headers, algorithm, encoding, timestamp, deliveryIdHeader, handshakes, grade, captured, aliases } = publisher;
  const { retriesInWords, presets } = publisher.setUp;
  const facts: readonly (readonly [name: string, value: ComponentChildren])[] = [
    ['Scheme', <code key="name">{[publisher.name, ...aliases].join(', ')}</code>],
    ['Signature', headers.join(', ') || 'in the body'],
    ['Algorithm', [algorithm, encoding].filter((part) => part !== null).join(', ')],
    ['Time', timestamp === null ? 'not signed' : `${timestamp.name} (${timestamp.unit})`],
    ['Id of a delivery', deliveryIdHeader ?? 'none'],
    ['Kind of event', valueText(publisher.eventType)],
    ['Id of the event', valueText(publisher.eventId)],
    [
      'Tests the URL by',
      handshakes.map(({ name, method }) => (name === method ? name : `${method} ${name}`)).join(', '),
    ],
    ['Key names', publisher.certificateOf],
    ['Retries', <Markdown key="retries" text={retriesInWords} />],
    ['Lists of addresses', presets.join(', ')],
    ['Grade', grade === null ? null : `${grade}: ${captured ?? ''}`],
    ['Not confirmed', publisher.unconfirmed],
    ['Source', <Source key="source" text={publisher.source} />],
  ];
  return (
    <dl class="pairs worded">
      {facts
        .filter(([, value]) => value !== null && value !== '')
        .map(([fact, value]) => (
          <div key={fact}>
            <dt>{fact}</dt>
            <dd class="break">{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function valueText(value: Publisher['eventId']): string | null {
  if (value === null) return null;
  if (value.in === 'none') return `none: ${value.why ?? ''}`;
  return value.in === 'header' ? `the header ${value.name ?? ''}` : `${value.name ?? ''} in the body`;
}

function Source({ text }: { text: string }) {
  return (
    <>
      {linksIn(text).map((piece) =>
        piece.isLink ? (
          <a key={piece.text} href={piece.text} target="_blank" rel="noreferrer">
            {piece.text}
          </a>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}

function Markdown({ text }: { text: string }) {
  return (
    <>
      {piecesOf(text).map((piece, index) => {
        if (piece.is === 'strong') return <strong key={index}>{piece.text}</strong>;
        return piece.is === 'code' ? <code key={index}>{piece.text}</code> : piece.text;
      })}
    </>
  );
}

function PublishersLink() {
  return (
    <a class="button" href="/flows/publishers">
      <Icon name="deliveries" />
      Publishers
    </a>
  );
}

export const publishersPagePage: PagePart = {
  name: 'publishers-page',
  routes: [
    { path: '/flows/publishers', page: PublishersPage, title: 'Publishers', question: () => '/schemes' },
    { path: '/flows/publishers/:name', page: PublisherPage, title: 'Publisher', question: () => '/schemes' },
  ],
  place: { text: 'Publishers', href: '/flows/publishers', key: 'p' },
  at: { flowsTools: PublishersLink },
};
