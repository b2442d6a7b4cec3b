import type { Attention } from '../api-types.ts';
import { clockTime, exactTime } from '../format.ts';
import { Icon } from '../kit/pill.tsx';
import type { IconName } from '../looks.ts';

const ICONS: Readonly<Record<Attention['severity'], readonly [IconName, string]>> = {
  error: ['cross', 'Error'],
  warning: ['warn', 'Warning'],
  info: ['info', 'Note'],
};

/** A place of the page opens here; what is not one, such as the metrics, in a tab of its own. */
export function AttentionList({ items }: { items: readonly Attention[] }) {
  if (items.length === 0) {
    return (
      <p class="all-well">
        <Icon name="check" />
        Nothing needs attention.
      </p>
    );
  }
  return (
    <ul class="attention">
      {items.map(({ kind, severity, message, link }) => {
        const [icon, name] = ICONS[severity];
        const isPlace = link.startsWith('/flows') && !link.startsWith('/flows/api');
        return (
          <li key={`${kind} ${message}`} class={severity}>
            <Icon name={icon} />
            <span class="unseen">{name}: </span>
            <a href={link} target={isPlace ? undefined : '_blank'} rel="noreferrer">
              <Message text={message} />
            </a>
          </li>
        );
      })}
    </ul>
  );
}

/** Times in it, which the API gives in UTC, as the clock on the wall says them. */
function Message({ text }: { text: string }) {
  const parts = text.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/);
  return (
    <>
      {parts.map((part, index) => {
        const ms = index % 2 === 1 ? Date.parse(part) : Number.NaN;
        if (Number.isNaN(ms)) return part;
        return (
          <time key={part} dateTime={part} title={`${exactTime(ms)}\n${part}`}>
            {clockTime(ms, Date.now()).replace(/:00$/, '')}
          </time>
        );
      })}
    </>
  );
}
