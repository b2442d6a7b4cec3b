import type { FlowDetail } from '../api-types.ts';
import { DryRunButton } from '../deliveries/dry-run-dialog.tsx';
import { CodeLine } from '../kit/copy.tsx';
import { Icon, type IconName } from '../kit/icon.tsx';
import { Empty, Panel } from '../kit/page.tsx';
import { ModePill, Pill, type Tone } from '../kit/pill.tsx';
import { readManifest } from './manifest.ts';

type Trigger = FlowDetail['triggers'][number];

/** How the flow is started; addresses and commands are ready to paste. */
export function TriggersPanel({ flow }: { flow: FlowDetail }) {
  const { triggers } = readManifest(flow.manifest);
  return (
    <Panel title="Triggers">
      {flow.triggers.length === 0 ? (
        <Empty icon="play" title="It has no triggers">
          <p>It can only be started by hand.</p>
        </Empty>
      ) : (
        <ul class="trigger-list">
          {flow.triggers.map((trigger) => (
            <li key={trigger.key}>
              {trigger.type === 'webhook' ? (
                <Webhook trigger={trigger} flowId={flow.id} />
              ) : (
                <OtherTrigger trigger={trigger} inputs={triggers[trigger.key]?.inputs ?? {}} />
              )}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Webhook({
  trigger: { key, slug, url, scheme, grade, captured, mode, sendCommand },
  flowId,
}: {
  trigger: Trigger;
  flowId: string;
}) {
  return (
    <>
      <p class="trigger-head">
        <Icon name="deliveries" />
        <b>{key}</b>
        <span class="muted">{`webhook, ${scheme === null || scheme === undefined ? 'no signature is checked' : `signed as ${scheme}`}`}</span>
        {grade === null || grade === undefined ? null : <GradePill grade={grade} captured={captured ?? ''} />}
        {mode === undefined ? null : <ModePill mode={mode} />}
        <a href={`/flows/deliveries?flowId=${flowId}`}>Deliveries</a>
        {url === null || url === undefined ? null : (
          <DryRunButton idOrSlug={slug ?? flowId} headers={{ 'content-type': 'application/json' }} body="{}" />
        )}
      </p>
      {captured === null || captured === undefined ? null : <p class="muted">{captured}</p>}
      {url === null || url === undefined ? (
        <p class="muted">
          No address leads to it: give it a <code>webhookSlug</code>.
        </p>
      ) : (
        <dl class="commands">
          <dt>Address for the publisher</dt>
          <dd>
            <CodeLine text={url} label="the address" />
          </dd>
          {sendCommand === null || sendCommand === undefined ? null : (
            <>
              <dt>Send a signed sample</dt>
              <dd>
                <CodeLine text={sendCommand} label="the command" />
              </dd>
            </>
          )}
        </dl>
      )}
    </>
  );
}

const GRADE_LOOKS: Readonly<Record<NonNullable<Trigger['grade']>, readonly [Tone, IconName]>> = {
  A: ['good', 'check'],
  B: ['good', 'check'],
  C: ['warn', 'warn'],
  D: ['warn', 'warn'],
  E: ['bad', 'warn'],
  F: ['bad', 'warn'],
};

function GradePill({ grade, captured }: { grade: NonNullable<Trigger['grade']>; captured: string }) {
  const [tone, icon] = GRADE_LOOKS[grade];
  return (
    <Pill tone={tone} icon={icon} title={captured}>
      {`Coverage ${grade}`}
    </Pill>
  );
}

function OtherTrigger({
  trigger: { key, type },
  inputs,
}: {
  trigger: Trigger;
  inputs: Readonly<Record<string, unknown>>;
}) {
  const { cronExpression, timeZone } = inputs;
  return (
    <p class="trigger-head">
      <Icon name={type === 'cron' ? 'clock' : 'play'} />
      <b>{key}</b>
      {type === 'cron' ? (
        <>
          <span class="muted">cron</span>
          <code>{String(cronExpression)}</code>
          <span class="muted">{String(timeZone ?? 'UTC')}</span>
          <a href="/flows/schedules">Schedules</a>
        </>
      ) : (
        <span class="muted">manual: started by a person or over the API</span>
      )}
    </p>
  );
}
