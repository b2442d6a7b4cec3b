import { useEffect, useRef, useState } from 'preact/hooks';
import { ask } from '../../dashboard/web/api.ts';
import { format } from '../../dashboard/web/format.ts';
import { Failure } from '../../dashboard/web/kit/page.tsx';
import { Icon, Pill } from '../../dashboard/web/kit/pill.tsx';
import type { PagePart } from '../../dashboard/web/part.ts';
import { Side } from '../revisions/revisions-panel.tsx';
import type { RehearsalAnswers } from './service.ts';

type FlowRehearsal = RehearsalAnswers['Rehearsal'];

const DELIVERIES = 200;

interface RehearsalProps {
  /** The manifest as JSON. */
  readonly text: string;
  readonly isReady: boolean;
}

/** On demand, runs stored deliveries through the deployed revision and the manifest, and shows the differences. */
function Rehearsal({ text, isReady }: RehearsalProps) {
  const [shown, setShown] = useState<{ readonly of: string; readonly flows: readonly FlowRehearsal[] }>();
  const [error, setError] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const rehearse = async () => {
    const controller = new AbortController();
    running.current = controller;
    setBusy(true);
    setError(undefined);
    try {
      const { flows } = await ask<{ readonly flows: readonly FlowRehearsal[] }>('/flows/rehearse', {
        method: 'POST',
        // The text as written: numbers spelled differently would make a different manifest.
        rawBody: `{"deliveries":${DELIVERIES},"manifests":[${text}]}`,
        headers: { 'content-type': 'application/json' },
        signal: controller.signal,
      });
      setShown({ of: text, flows });
    } catch (failed) {
      if (!controller.signal.aborted) setError(failed);
    }
    setBusy(false);
  };
  return (
    <section class="stack" aria-label="Rehearsal">
      <p>
        <button type="button" class="button" disabled={!isReady || isBusy} onClick={() => void rehearse()}>
          <Icon name="deliveries" />
          {isBusy ? 'Rehearsing…' : 'Rehearse on stored deliveries'}
        </button>{' '}
        <span class="muted minor">{`the newest ${DELIVERIES}; nothing is sent or stored`}</span>
      </p>
      {error === undefined ? null : <Failure error={error} />}
      {shown === undefined || shown.of !== text ? null : <Result flows={shown.flows} />}
    </section>
  );
}

function Result({ flows }: { flows: readonly FlowRehearsal[] }) {
  if (flows.length === 0) return <p>No deployed flow changes by this manifest.</p>;
  return (
    <>
      {flows.map((flow) => (
        <OfFlow key={flow.flowId} flow={flow} />
      ))}
    </>
  );
}

function OfFlow({ flow }: { flow: FlowRehearsal }) {
  const { deliveries, same, differing, groups, skipped, unknown, isStopped } = flow;
  if (deliveries === 0 && !isStopped) return <p>No delivery of this flow is stored.</p>;
  return (
    <>
      <p class="revision-head" role="status">
        <b>{`${format.counted(deliveries, 'delivery', 'deliveries')}: ${same} as before`}</b>
        <Pill tone={differing === 0 ? 'good' : 'warn'} icon={differing === 0 ? 'check' : 'warn'}>
          {`${differing} would differ`}
        </Pill>
      </p>
      {isStopped ? <p class="muted">The time was over before all of them were looked at.</p> : null}
      <ul class="findings">
        {groups.map((group) => (
          <li key={`${group.kind} ${group.at} ${group.what.join(' ')}`}>
            <Group group={group} />
          </li>
        ))}
      </ul>
      <Counted title="Not compared" counted={skipped} />
      <Counted title="Not known" counted={unknown} />
    </>
  );
}

type GroupAnswer = FlowRehearsal['groups'][number];

const TITLES = {
  gates: 'Gates',
  step: 'Step',
  request: 'Request of',
  wait: 'Wait of',
  end: 'End of the run',
} as const satisfies Record<GroupAnswer['kind'], string>;

function Group({ group: { kind, at, what, count, examples } }: { group: GroupAnswer }) {
  return (
    <details>
      <summary>
        <Icon name="right" />
        <span class="break">
          {TITLES[kind]} {kind === 'gates' || kind === 'end' ? null : <code>{at}</code>} {what.join(', ')}
        </span>
        <span class="muted">{format.counted(count, 'delivery', 'deliveries')}</span>
      </summary>
      <div class="finding-body">
        {examples.length === 0 ? <p class="muted">The scope read shows what they are.</p> : null}
        {examples.map((example) => (
          <ExampleOf key={example.deliveryId} example={example} />
        ))}
      </div>
    </details>
  );
}

function ExampleOf({ example: { deliveryId, differences } }: { example: GroupAnswer['examples'][number] }) {
  return (
    <>
      <h3>
        <a class="mono" href={`/flows/deliveries/${deliveryId}`}>
          {deliveryId}
        </a>
      </h3>
      <ul class="differences">
        {differences.flatMap(({ kind, at, changes }) =>
          changes.map(({ path, before, after }) => (
            <li key={`${kind} ${at} ${path}`}>
              <p class="break">
                {kind} {at === kind ? null : <code>{at}</code>} <code>{path}</code>
              </p>
              {before === undefined ? null : <Side sign="−" tone="before" value={before} />}
              {after === undefined ? null : <Side sign="+" tone="after" value={after} />}
            </li>
          )),
        )}
      </ul>
    </>
  );
}

function Counted({ title, counted }: { title: string; counted: FlowRehearsal['skipped'] }) {
  if (counted.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul>
        {counted.map(({ what, count }) => (
          <li key={what} class="break">
            {what} <span class="muted">{format.counted(count, 'delivery', 'deliveries')}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

export const rehearsalPage: PagePart = { name: 'rehearsal', at: { deploy: Rehearsal } };
