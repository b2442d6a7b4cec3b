import { withQuery } from '../api.ts';
import type { DeliveryTimes, RunBucket } from '../api-types.ts';
import { counted } from '../format.ts';
import { BarChart } from '../kit/chart.tsx';
import { Loaded, Panel } from '../kit/page.tsx';
import { useResource } from '../resource.ts';
import type { Window } from './windows.ts';

export function DeliveryChart({ window }: { window: Window }) {
  const { bucket, hours } = window;
  const times = useResource<DeliveryTimes>(withQuery('/webhooks/timeseries', { bucket, hours }), {
    refreshOn: ['delivery.received'],
    keepPrevious: true,
  });
  return (
    <Panel title="Deliveries" aside={<a href="/flows/deliveries">All</a>}>
      <Loaded of={times} lines={6}>
        {({ buckets, bucket: unit }) => {
          const accepted = buckets.map((each) => each.accepted);
          const failed = buckets.map((each) => each.rejected);
          return (
            <BarChart
              label={`Deliveries over ${window.name}: ${total(accepted)} accepted, ${total(failed)} failed a gate or were refused`}
              times={buckets.map(({ timestamp }) => Date.parse(timestamp))}
              isByDay={unit === 'day'}
              series={[
                { name: 'Accepted', colour: 'accent', values: accepted },
                { name: 'Failed a gate or refused', colour: 'bad', values: failed },
              ]}
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}

export function RunChart({ window }: { window: Window }) {
  const { bucket, hours } = window;
  const query = bucket === 'day' ? { bucket, days: hours / 24 } : { bucket, hours };
  const times = useResource<{ bucket: string; buckets: readonly RunBucket[] }>(withQuery('/runs/timeseries', query), {
    refreshOn: ['run.started', 'run.completed'],
    keepPrevious: true,
  });
  return (
    <Panel title="Runs" aside={<a href="/flows/runs">All</a>}>
      <Loaded of={times} lines={6}>
        {({ buckets, bucket: unit }) => {
          const succeeded = buckets.map((each) => each.succeeded);
          const failed = buckets.map((each) => each.failed);
          const running = buckets.map((each) => each.running);
          const others = buckets.map((each) => each.total - each.succeeded - each.failed - each.running);
          return (
            <BarChart
              label={`Runs over ${window.name}: ${total(succeeded)} succeeded, ${total(failed)} failed, ${total(running)} in flight, ${counted(total(others), 'other')}`}
              times={buckets.map(({ timestamp }) => Date.parse(timestamp))}
              isByDay={unit === 'day'}
              series={[
                { name: 'Succeeded', colour: 'good', values: succeeded },
                { name: 'Failed', colour: 'bad', values: failed },
                { name: 'In flight', colour: 'busy', values: running },
                { name: 'Skipped or cancelled', colour: 'muted', values: others },
              ]}
            />
          );
        }}
      </Loaded>
    </Panel>
  );
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
