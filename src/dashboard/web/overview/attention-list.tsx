import type { Attention } from '../api-types.ts';
import { Icon, type IconName } from '../kit/icon.tsx';

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
              {message}
            </a>
          </li>
        );
      })}
    </ul>
  );
}
