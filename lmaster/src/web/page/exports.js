
export { axes, colour, duration, element, frame, hatched, number, quantity, swatch, table, ticks, unitFor };
