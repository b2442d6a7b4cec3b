import type { DeliveryStats } from '../api-types.ts';
import { count, words } from '../format.ts';
import { Empty } from '../kit/page.tsx';

/** How often each reason was met with; each leads to the deliveries that it is the reason of. */
export function ReasonBars({ stats }: { stats: DeliveryStats }) {
  const reasons = Object.entries(stats.counts)
    .flatMap(([reason, number]) => (number === undefined || number === 0 ? [] : [{ reason, number }]))
    .sort((a, b) => b.number - a.number);
  const most = Math.max(1, ...reasons.map(({ number }) => number));
  if (reasons.length === 0) {
    return (
      <Empty icon="shield" title={stats.total === 0 ? 'No delivery came in these hours' : 'Every delivery passed'}>
        <p>
          {stats.total === 0 ? 'What fails a gate is counted here.' : `${count(stats.total)} in the last 24 hours.`}
        </p>
      </Empty>
    );
  }
  return (
    <ul class="reason-bars">
      {reasons.map(({ reason, number }) => (
        <li key={reason}>
          <a href={`/flows/deliveries?reason=${reason}`}>
            <span class="reason-name">{words(reason)}</span>
            <span class="reason-count">{count(number)}</span>
            <span class="reason-bar" style={{ width: `${(number / most) * 100}%` }} />
          </a>
        </li>
      ))}
    </ul>
  );
}
